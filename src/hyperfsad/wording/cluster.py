"""Sentences about `cluster`."""

from . import Sentences

CLUSTER_SENTENCES: Sentences = {}
