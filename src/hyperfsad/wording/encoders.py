"""Sentences about `encoders`."""

from . import Sentences

ENCODERS_SENTENCES: Sentences = {}
