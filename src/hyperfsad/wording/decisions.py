"""Sentences about `decisions`."""

from . import Sentences

DECISIONS_SENTENCES: Sentences = {}
