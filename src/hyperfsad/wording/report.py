"""Sentences about `report`."""

from . import Sentences

REPORT_SENTENCES: Sentences = {}
