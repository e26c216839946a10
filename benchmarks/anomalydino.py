"""The time of an image beside anomalib's AnomalyDINO, on the same weights and images, in turns.

    python benchmarks/anomalydino.py --anomalib PYTHON --good GOOD... --images IMAGE...
        [--precisions float32,auto] [--turns 5]

PYTHON is that of an environment with anomalib 2.7. Each method is a process of its own that has
learnt the good parts and waits; they take turns over all images, from file to verdict or score.
AnomalyDINO gets the weights of `dinov2-vits14` from our cache, 448 px and a whole memory, as its
authors have it; torch has as many threads as there are cores. Prints medians, and ratios.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

THEIRS = """
import json, sys, time
import numpy as np, timm, torch
from PIL import Image
from safetensors.numpy import load_file
create = timm.create_model
def without_hub(name, **more):
    return create(name, **{**more, "pretrained": False})
timm.create_model = without_hub
import anomalib.models.components.feature_extractors.timm as extractor
from anomalib.models.image.anomaly_dino.torch_model import AnomalyDINOModel
model = AnomalyDINOModel().eval()
ours = load_file(sys.argv[1])
names = {"embeddings.cls_token": "cls_token", "embeddings.position_embeddings": "pos_embed"}
kinds = ("weight", "bias")
for kind in kinds:
    names["embeddings.patch_embeddings.projection." + kind] = "patch_embed.proj." + kind
    names["layernorm." + kind] = "norm." + kind
state = {}
def take(name):
    return torch.from_numpy(next(v for k, v in ours.items() if k.endswith(name)).copy())
for own, theirs in names.items():
    state[theirs] = take(own)
for block in range(12):
    a, b = f"encoder.layer.{block}.", f"blocks.{block}."
    old = any(".attention.attention." in k for k in ours)
    query = "attention.attention." if old else "attention."
    parts = ("query", "key", "value") if old else ("q_proj", "k_proj", "v_proj")
    out = "attention.output.dense." if old else "attention.o_proj."
    for kind in kinds:
        rows = [take(f"{a}{query}{part}.{kind}") for part in parts]
        state[f"{b}attn.qkv.{kind}"] = torch.cat(rows)
        state[f"{b}attn.proj.{kind}"] = take(f"{a}{out}{kind}")
        for name in ("norm1", "norm2", "mlp.fc1", "mlp.fc2"):
            state[f"{b}{name}.{kind}"] = take(f"{a}{name}.{kind}")
    for place in (1, 2):
        state[f"{b}ls{place}.gamma"] = take(f"{a}layer_scale{place}.lambda1")
encoder = model.feature_encoder.feature_extractor
wanted = encoder.state_dict()
side = int((wanted["pos_embed"].shape[1] - 1) ** 0.5)
table = state["pos_embed"][:, 1:].reshape(1, 37, 37, -1).permute(0, 3, 1, 2)
if side != 37:
    resize = torch.nn.functional.interpolate
    table = resize(table, size=(side, side), mode="bicubic", antialias=True)
flat = table.permute(0, 2, 3, 1).reshape(1, side * side, -1)
state["pos_embed"] = torch.cat([state["pos_embed"][:, :1], flat], dim=1)
missing = [k for k in wanted if k not in state]
assert not missing, missing
encoder.load_state_dict({k: state[k] for k in wanted})
mean, std = ([np.float32(v) for v in values] for values in
             ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
def pixels(path):
    image = Image.open(path).convert("RGB").resize((448, 448), Image.Resampling.BICUBIC)
    values = (np.asarray(image, np.float32) / 255 - mean) / std
    return torch.from_numpy(values.transpose(2, 0, 1)[None].copy())
given = json.loads(sys.stdin.readline())
with torch.inference_mode():
    model.train(); model.feature_encoder.eval()
    for path in given["good"]:
        model(pixels(path))
    model.fit(); model.eval()
    for path in given["images"][:2]:
        model(pixels(path))
    print("ready", flush=True)
    for _ in sys.stdin:
        took = []
        for path in given["images"]:
            start = time.perf_counter()
            float(model(pixels(path)).pred_score)
            took.append(time.perf_counter() - start)
        print(json.dumps(took), flush=True)
"""

OURS = """
import json, sys, time
from hyperfsad import HyperFSAD
given = json.loads(sys.stdin.readline())
detector = HyperFSAD(precision=sys.argv[1]).fit(given["good"])
if given["line"]:
    detector.adapt(given["line"])
for path in given["images"][:2]:
    detector.predict(path)
print("ready", flush=True)
for _ in sys.stdin:
    took = []
    for path in given["images"]:
        start = time.perf_counter()
        detector.predict(path).level
        took.append(time.perf_counter() - start)
    print(json.dumps(took), flush=True)
"""


class Method:
    """A process that has learnt and waits for its turn."""

    def __init__(self, command: list[str], given: dict[str, list[str]]) -> None:
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._say(json.dumps(given))
        while (line := self._hear()) != "ready":
            assert line, "the process ended"
        self.seconds: list[float] = []

    def take_turn(self) -> None:
        self._say("")
        self.seconds += json.loads(self._hear())

    def _say(self, text: str) -> None:
        assert self._process.stdin is not None
        print(text, file=self._process.stdin, flush=True)

    def _hear(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def end(self) -> None:
        self._process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--anomalib", help="Python of an environment with anomalib 2.7")
    parser.add_argument("--good", nargs="+", required=True)
    parser.add_argument("--line", nargs="*", default=[], help="unlabelled parts that ours learns")
    parser.add_argument("--images", nargs="+", required=True)
    parser.add_argument("--precisions", default="float32,auto")
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    given = {"good": options.good, "line": options.line, "images": options.images}
    given = {name: [os.path.abspath(path) for path in paths] for name, paths in given.items()}
    methods = {
        f"ours, {name}": Method([sys.executable, "-c", OURS, name], given)
        for name in options.precisions.split(",")
    }
    if options.anomalib:
        from hyperfsad.encoders.runtime import cached_folder, find_spec, weight_files

        folder = cached_folder(find_spec("dinov2-vits14"))
        assert folder is not None, "hyperfsad encoders fetch dinov2-vits14"
        (weights,) = weight_files(Path(folder))
        command = [options.anomalib, "-c", THEIRS, os.fspath(weights)]
        methods["AnomalyDINO"] = Method(command, given)
    for _ in range(options.turns):
        for method in methods.values():
            method.take_turn()
    first = statistics.median(next(iter(methods.values())).seconds)
    for name, method in methods.items():
        median = statistics.median(method.seconds)
        print(f"{name:16} {1000 * median:7.1f} ms an image, {median / first:.2f} of the first")
        method.end()


if __name__ == "__main__":
    main()
