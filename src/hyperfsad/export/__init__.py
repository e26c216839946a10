"""Models that run elsewhere: one graph from pixels to scores, without torch and without hyperfsad.

matching    sparsemax (Equation 1) and missing pieces for a graph, exact for any active set
graph       all of a detector as one module of torch: pixels in, scores and map out
writing     the module as ONNX or OpenVINO, with its card and `preprocess.py` beside it
preprocess  from a file to the graph's input; copied beside the model, it imports nothing of us
exported    runs an exported folder as a detector: results, regions, verdicts
"""

from typing import TYPE_CHECKING

from ..lazy import loader

if TYPE_CHECKING:
    from .exported import ExportedDetector, ExportedModel
    from .writing import export

__all__ = ["ExportedDetector", "ExportedModel", "export"]

# torch is imported for `export` alone
__getattr__ = loader(
    __name__, {"ExportedDetector": "exported", "ExportedModel": "exported", "export": "writing"}
)
