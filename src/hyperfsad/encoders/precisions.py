"""Engines that compute in less than float32. Their tokens are others, and their names say so.

Tokens of one precision are compared with tokens of the same one only: a memory of float32 tokens
would take the rounding of an 8-bit encoder for defects. So the fingerprint of what made a memory
names the precision too, behind that of the weights: `…`, `…+bf16`, `…+int8:<hash of the graph>`.
Nothing here needs torch.
"""

import os
from collections.abc import Collection

from ..errors import UsageError
from .specs import ENGINES

FULL, INT8 = "f32", "int8"
HALF = {"bf16": "bf16", "fp16": "f16"}
"""Half precisions as OpenVINO calls them."""
_PREFIX = "openvino-"


def named_engine(name: str) -> str:
    """The engine asked for; the variable HYPERFSAD_ENGINE says what auto means."""
    if name == "auto":
        name = os.environ.get("HYPERFSAD_ENGINE") or "auto"
    if name not in ENGINES:
        raise UsageError(f"The engine is one of {', '.join(ENGINES)}, not {name!r}.")
    return name


def precision_of(engine: str) -> str:
    """What an engine computes in."""
    return engine.removeprefix(_PREFIX) if engine.startswith(_PREFIX) else FULL


def engine_in(precision: str) -> str:
    """The engine that computes so."""
    return "openvino" if precision == FULL else _PREFIX + precision


def hint_for(precision: str, capabilities: Collection[str]) -> str:
    """What OpenVINO shall compute in on a CPU with these capabilities.

    A quantised graph says itself where it is 8 bits; the rest may be half precision, whose error
    is a fraction of that.
    """
    if precision == INT8:
        return "bf16" if "BF16" in capabilities else "f32"
    return HALF.get(precision, "f32")


def fingerprint_in(weights: str, precision: str, graph: str = "") -> str:
    """The fingerprint of weights that compute in a precision."""
    detail = f":{graph}" if graph else ""
    return weights if precision == FULL else f"{weights}+{precision}{detail}"


def weights_in(fingerprint: str) -> str:
    """The part of a fingerprint that tells weights apart."""
    return fingerprint.partition("+")[0]


def precision_in(fingerprint: str) -> str:
    """The precision that a fingerprint names."""
    return fingerprint.partition("+")[2].partition(":")[0] or FULL


def engine_for(engine: str, fingerprint: str, path: str) -> str:
    """The engine for a saved detector: its own precision, whatever auto means; another is refused,
    since memory and thresholds were made by that one."""
    own = precision_in(fingerprint)
    if own not in (FULL, INT8, *HALF):
        raise UsageError(
            f"{path} was fitted in {own}, which this version does not know; update hyperfsad."
        )
    if engine == "auto" and own != FULL:
        return engine_in(own)
    asked = precision_of(named_engine(engine))
    if asked != own:
        raise UsageError(
            f"{path} was fitted in {own}, and its memory and thresholds hold for that alone; leave"
            f" --engine out, or fit a detector again with --engine {engine_in(asked)}."
        )
    return engine


def other_encoder(name: str, expected: str, found: str) -> str:
    """Why a memory that was made by one encoder cannot be asked by another."""
    own, other = precision_in(expected), precision_in(found)
    if own != other:
        return (
            f"This detector was fitted in {own}, and the encoder computes in {other}; its scores"
            f" and thresholds would be wrong. Fit it again with the engine {engine_in(other)}."
        )
    if weights_in(expected) == weights_in(found):
        return (
            f"This detector has an {own} encoder of its own, calibrated on its good parts; it"
            " cannot take that of another detector."
        )
    return (
        f"This detector was made with other weights of {name} than those on this machine; its"
        " scores would be wrong. Fit it again."
    )
