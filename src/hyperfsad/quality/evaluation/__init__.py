"""How good the verdicts of a detector are on parts whose truth is known.

>>> from hyperfsad.quality.evaluation import evaluate
>>> found = evaluate(detector, good="good/", bad="bad/")
>>> print(found.to_text())
>>> found.save("evaluation/")
"""

from typing import TYPE_CHECKING

from ...lazy import loader

if TYPE_CHECKING:
    from .evaluation import Evaluation
    from .run import evaluate

__all__ = ["Evaluation", "evaluate"]

__getattr__ = loader(__name__, {"Evaluation": "evaluation", "evaluate": "run"})
