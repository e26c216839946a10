"""Sentences about `views`."""

from . import Sentences

VIEWS_SENTENCES: Sentences = {}
