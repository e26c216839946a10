"""Models that run elsewhere: one graph from pixels to scores, without hyperfsad.

matching    sparsemax (Equation 1) and missing pieces for a graph, exact for any active set
graph       all of a detector as one formula: tokens in, scores and map out
nodes       arrays that are nodes of an OpenVINO graph; called with them, a formula draws it
openvino    the encoder and that formula as one graph
onnx        a graph of OpenVINO as a file of ONNX, operation by operation
protobuf    the bytes of such a file
writing     the folder of a model: its graph, its card, `preprocess.py`
preprocess  from a file to the graph's input; copied beside the model, it imports nothing of us
exported    runs an exported folder as a detector: results, regions, verdicts
"""

from typing import TYPE_CHECKING

from ..lazy import loader

if TYPE_CHECKING:
    from .exported import ExportedDetector, ExportedModel
    from .writing import export

__all__ = ["ExportedDetector", "ExportedModel", "export"]

# OpenVINO is imported for `export` alone, and for what runs in it
__getattr__ = loader(
    __name__, {"ExportedDetector": "exported", "ExportedModel": "exported", "export": "writing"}
)
