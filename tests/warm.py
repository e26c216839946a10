"""What the process that forks commands has imported before; it computes nothing."""

import hyperfsad.cli
import hyperfsad.detector.detector  # noqa: F401
from hyperfsad.encoders.runtime import import_openvino

import_openvino()
