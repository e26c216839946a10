"""Frozen encoders: a registry of specs, and what loads and runs them."""

from .specs import DEFAULT, ENGINES, REGISTRY, EncoderSettings, EncoderSpec, find_spec

__all__ = ["DEFAULT", "ENGINES", "REGISTRY", "EncoderSettings", "EncoderSpec", "find_spec"]
