"""Frozen encoders: a registry of specs, and what loads and runs them."""

from .specs import ENGINES, REGISTRY, SUBSTITUTE, EncoderSettings, EncoderSpec, find_spec

__all__ = ["ENGINES", "REGISTRY", "SUBSTITUTE", "EncoderSettings", "EncoderSpec", "find_spec"]
