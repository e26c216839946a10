"""Sentences about `disk`."""

from . import Sentences

DISK_SENTENCES: Sentences = {}
