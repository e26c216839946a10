"""Sentences about `export`."""

from . import Sentences

EXPORT_SENTENCES: Sentences = {}
