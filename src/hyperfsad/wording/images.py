"""Sentences about `images`."""

from . import Sentences

IMAGES_SENTENCES: Sentences = {}
