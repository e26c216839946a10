"""Sentences about `detector`."""

from . import Sentences

DETECTOR_SENTENCES: Sentences = {}
