"""Sentences about `method`."""

from . import Sentences

METHOD_SENTENCES: Sentences = {}
