"""A whole detector as one graph of OpenVINO: the encoder's, and what `graph.py` draws behind it."""

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..encoders.folders import TowerWeights
from ..encoders.specs import EncoderSettings
from ..encoders.towers import tokens
from . import nodes
from .graph import Graph
from .nodes import Node, openvino, ops

MAX_STRUCTURE = 1 << 22
"""Bytes of the file that names all operations, and some to spare: 4 blocks take 0.24 MB."""


def drawn(weights: TowerWeights, settings: EncoderSettings, graph: Graph) -> Any:
    """From 8-bit pixels, (images, side, side, 3), to the outputs of `graph`, an OpenVINO model."""
    side = settings.resolution
    pixels = ops.parameter([-1, side, side, 3], np.uint8)
    scaled = nodes.astype(Node(pixels.output(0)), nodes.float32) / 255
    normalised = (scaled - nodes.asarray(settings.mean)) / nodes.asarray(settings.std)
    seen = nodes.permute_dims(normalised, (0, 3, 1, 2)).output
    patches, cls = (Node(each.output(0)) for each in tokens(weights, settings, seen))
    return model_of({"pixels": pixels}, graph(patches, cls))


def model_of(inputs: Mapping[str, Any], outputs: Mapping[str, Node]) -> Any:
    """The model between parameters and what was drawn from them, with these names."""
    for name, parameter in inputs.items():
        parameter.output(0).set_names({name})
    for name, value in outputs.items():
        value.output.add_names({name})
    results = [ops.result(value.output) for value in outputs.values()]
    model = openvino.Model(results, [*inputs.values()], "hyperfsad")
    _name_all(model)
    for name, node in [*inputs.items(), *zip(outputs, results, strict=True)]:
        node.set_friendly_name(name)
    return model


def write_openvino(model: Any, path: Path) -> None:
    """Writes a model, and its constants in the file `.bin` beside it."""
    try:
        openvino.save_model(model, path, compress_to_fp16=False)
    except RuntimeError as error:  # it does not say why, and keeps nothing of what it wrote
        constants = [each for each in model.get_ops() if each.get_type_name() == "Constant"]
        needed = sum(each.get_byte_size() for each in constants) + MAX_STRUCTURE
        if shutil.disk_usage(path.parent).free < needed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from error
        raise


def _name_all(model: Any) -> None:
    """Names by place: OpenVINO counts nodes through a process, and the same detector is to give the
    same bytes."""
    for place, operation in enumerate(model.get_ordered_ops()):
        operation.set_friendly_name(f"{operation.get_type_name()}_{place}")
        if operation.get_type_name() == "Loop":
            _name_all(operation.get_function())
