"""Sentences about `quality`."""

from . import Sentences

QUALITY_SENTENCES: Sentences = {}
