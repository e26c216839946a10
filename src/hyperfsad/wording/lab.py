"""Sentences about `lab`."""

from . import Sentences

LAB_SENTENCES: Sentences = {}
