"""Sentences about `serve`."""

from . import Sentences

SERVE_SENTENCES: Sentences = {}
