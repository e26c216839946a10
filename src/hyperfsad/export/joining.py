"""A quantised encoder and what follows it, as one graph of OpenVINO: pixels in, scores out."""

from typing import Any

import numpy as np

from ..encoders import EncoderSettings
from ..encoders.runtime import import_openvino


def joined(encoder: Any, judge: Any, settings: EncoderSettings) -> Any:
    """The graph of a whole detector, in place of both.

    The encoder goes from (images, 3, side, side) to patch and CLS tokens, and `judge` goes on from
    inputs of these names.
    """
    openvino = import_openvino()
    from openvino import opset13 as ops

    pixels = ops.parameter([-1, settings.resolution, settings.resolution, 3], np.uint8, "pixels")
    pixels.output(0).set_names({"pixels"})
    values = ops.divide(ops.convert(pixels, "f32"), np.float32(255))
    values = ops.subtract(values, np.asarray(settings.mean, dtype=np.float32))
    values = ops.divide(values, np.asarray(settings.std, dtype=np.float32))
    values = ops.transpose(values, np.array([0, 3, 1, 2]))
    encoder.get_parameters()[0].output(0).replace(values.output(0))
    places = {"patches": 0, "cls": 1}
    for parameter in judge.get_parameters():
        tokens = encoder.get_results()[places[parameter.get_friendly_name()]]
        parameter.output(0).replace(tokens.input_value(0))
    return openvino.Model(judge.get_results(), [pixels], "hyperfsad")
