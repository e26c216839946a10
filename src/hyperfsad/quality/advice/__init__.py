"""Advice: which setting suits a user's own parts, found out on those parts."""

from .comparing import Advice, advise
from .page import save_advice
from .text import advice_text

__all__ = ["Advice", "advice_text", "advise", "save_advice"]
