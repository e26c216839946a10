"""Sentences about `watch`."""

from . import Sentences

WATCH_SENTENCES: Sentences = {}
