"""Sentences about `cli`."""

from . import Sentences

CLI_SENTENCES: Sentences = {}
