"""Seeded mutations of detector files: what a bad disk does to them, and what a stranger would.

    python -m tests.detector.mutations FILE COUNT SEED

judges a picture with each mutated copy of the file, and prints what happened as JSON.
"""

import json
import math
import random
import resource
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from hyperfsad import HyperFSAD
from hyperfsad.detector.file import KEY
from hyperfsad.detector.products import load_detector
from hyperfsad.disk.tensors import SEAL, sealed
from hyperfsad.encoders.encoder import Encoder
from hyperfsad.errors import HyperfsadError
from tests.conftest import make_picture
from tests.tokens import unit

HOSTILE: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2, 3, 7, 1000, 2**31, 2**63, 10**24, 1e308, -1e308, 1e-320, 0.5,
    math.nan, math.inf, -math.inf, "", "x", "abc", "auto", "max", "top-0%", "9" * 5000, "\0", "\n",
    "../../etc", [], [1], [1, 1], [0, 0, 0], [[]], ["a"] * 1000, {}, {"a": 1}, [None] * 3,
    "ä" * 70_000,
)  # fmt: skip


BAD = ("traceback", "not finite", "several lines", "changed")
"""Outcomes that must not be."""


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything in a JSON value."""
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
    below = [place for key, item in items for place in places(item, (*path, key))]
    return [*([path] if path else []), *below]


def changed(header: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A header in which one to three things are others, missing, or there thousands of times."""
    header = json.loads(json.dumps(header))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        found = places(header)
        if not found:
            break
        *path, last = rng.choice(found)
        holder = header
        for key in path:
            holder = holder[key]
        what = rng.random()
        if what < 0.1:
            del holder[last]
        elif what < 0.2 and isinstance(holder[last], list) and holder[last]:
            holder[last] = holder[last] * rng.choice((2, 100, 300_000 // len(holder[last])))
            break  # or what follows would take more memory than what is tested
        elif what < 0.4 and isinstance(holder[last], int | float):
            holder[last] = holder[last] * rng.choice((-1, 0, 2, 0.5, 1e6, 1 + 1e-9))
        else:
            holder[last] = deepcopy(rng.choice(HOSTILE))
    return header


def save_sealed(tensors: dict[str, NDArray[Any]], path: Path, header: str) -> None:
    """What a stranger would write: whatever it holds, its seal is right."""
    save_file(tensors, path, {KEY: header, SEAL: "0" * 64})
    content = path.read_bytes()
    length = 8 + int.from_bytes(content[:8], "little")
    path.write_bytes(sealed(content[:length]) + content[length:])


def mutate(source: Path, target: Path, rng: random.Random) -> str:
    """Writes a mutated copy, and says what kind it is."""
    kind = rng.choice(("bytes", "cut", "header", "header", "header", "shape", "tokens"))
    content = bytearray(source.read_bytes())
    length = 8 + int.from_bytes(content[:8], "little")
    if kind == "bytes":
        for _ in range(rng.choice((1, 1, 8))):
            content[rng.randrange(rng.choice((length, len(content))))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        place = rng.randrange(len(content))
        content = content[:place] + rng.randbytes(rng.choice((0, rng.randrange(99))))
    elif kind == "shape":  # with a right seal
        text = json.loads(content[8:length])
        name = rng.choice([name for name in text if name != "__metadata__"])
        text[name] = changed({"tensor": text[name]}, rng).get("tensor")
        rest = json.dumps(text, separators=(",", ":")).encode()
        content = bytearray(sealed(len(rest).to_bytes(8, "little") + rest) + content[length:])
    else:
        tensors = load_file(source)
        numbers = np.random.default_rng(rng.getrandbits(32))
        header = json.loads(json.loads(content[8:length])["__metadata__"][KEY])
        if kind == "header":
            header = changed(header, rng)
        else:  # with right checksums
            name = rng.choice([name for name in tensors if name in header["crc32"]])
            tensor = tensors[name].astype(np.float32)
            how: Any = rng.choice((math.nan, math.inf, 0.0, 1e30, "row", "width"))
            if how == "width":
                for key in header["crc32"]:
                    half = tensors[key][..., : tensors[key].shape[-1] // 2]
                    tensors[key] = unit(half)
            elif how == "row":
                tensors[name] = tensor[:-1]
            else:
                spoilt = numbers.random(tensor.shape) < 0.01
                tensors[name] = np.where(spoilt, np.float32(how), tensor)
            tensors = {key: np.ascontiguousarray(tensor) for key, tensor in tensors.items()}
            for key in header["crc32"]:
                header["crc32"][key] = zlib.crc32(tensors[key].data)
        save_sealed(tensors, target, json.dumps(header))
        return kind
    target.write_bytes(content)
    return kind


def judged(path: Path, encoder: Encoder, seconds: list[float], expected: float | None) -> str:
    """What becomes of a file: refused, or used with a score that is a number.

    The score is the expected one, where there is one. Loading takes so many seconds.
    """
    began = time.process_time()
    try:
        try:
            detector = load_detector(path, device="cpu")
            detector.identity()
        finally:
            seconds.append(time.process_time() - began)
        if not isinstance(detector, HyperFSAD) or detector.encoding_ != encoder.settings:
            return "loaded"
        detector.use_encoder(encoder)
        result = detector.predict(make_picture(3))
    except HyperfsadError as error:
        return "refused" if "\n" not in str(error) else "several lines"
    except Exception:
        traceback.print_exc()
        return "traceback"
    if result.error is not None or not math.isfinite(result.score):
        return "not finite"
    return "judged" if expected in (None, result.score) else "changed"


def campaign(source: Path, count: int, seed: int) -> dict[str, Any]:
    """What became of so many mutated copies, the slowest of them, and the memory they took."""
    rng = random.Random(seed)
    detector = load_detector(source, device="cpu")
    score = detector.predict(make_picture(3)).score
    encoder = detector.encoder_
    target = source.with_name("mutated.hfsad")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    outcomes: Counter[str] = Counter()
    seconds: list[float] = []
    for number in range(count):
        kind = mutate(source, target, rng)
        by_accident = kind in ("bytes", "cut")  # no such change may go unnoticed
        outcome = judged(target, encoder, seconds, score if by_accident else None)
        outcomes[outcome] += 1
        if outcome in BAD:
            target.rename(source.with_name(f"bad-{number}-{kind}.hfsad"))
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return {"outcomes": dict(outcomes), "seconds": max(seconds), "megabytes": grown}


if __name__ == "__main__":
    print(json.dumps(campaign(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))  # noqa: T201
