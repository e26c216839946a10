"""Sentences about `evidence`."""

from . import Sentences

EVIDENCE_SENTENCES: Sentences = {}
