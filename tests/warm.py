"""What the process that forks commands has imported before; it computes nothing."""

from transformers import AutoConfig, Dinov2WithRegistersModel  # noqa: F401

import hyperfsad.cli
import hyperfsad.detector.detector  # noqa: F401
