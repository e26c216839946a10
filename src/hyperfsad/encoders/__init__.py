"""Frozen encoders: a registry of specs, and what loads and runs them."""

from .runtime import find_spec
from .specs import ENGINES, PRECISIONS, REGISTRY, SUBSTITUTE, EncoderSettings, EncoderSpec

__all__ = [
    "ENGINES",
    "PRECISIONS",
    "REGISTRY",
    "SUBSTITUTE",
    "EncoderSettings",
    "EncoderSpec",
    "find_spec",
]
