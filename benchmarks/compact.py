"""What a compact memory costs and saves: the tables of docs/speed.md.

    python benchmarks/compact.py --suite suite.json -o out/ [--products bottle,tile] [--good 8]
    python benchmarks/compact.py --suite suite.json -o out/ --times     # matching, K = 256 over 16

Tokens are those of `paper-offline`, from the benchmark's cache where they are there. The first
learns the first good parts of each product and keeps ever fewer of their patches: covering radius,
bound, I-AUROC, and the largest change of an image's score. Scores come from the map alone, with the
sharpness and the pooling of the recipe default; missing pieces are left out. The second takes real
pictures of all products for good parts, since no product has 256, and times the matching of the
paper's algorithm: 16 of them, all 256, and a coreset of the 256, in turns.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from hyperfsad.detector.recipes import find_recipe
from hyperfsad.disk.files import atomic_path
from hyperfsad.encoders.encoder import ImageTokens, use_threads
from hyperfsad.lab.datasets import Category
from hyperfsad.lab.run import Suite
from hyperfsad.lab.token_cache import TokenCache
from hyperfsad.method.coreset import compact_count, cover
from hyperfsad.method.matching import Comparison, Matcher
from hyperfsad.method.scoring import Pooling
from hyperfsad.quality.metrics import image_metrics

SHARES = (1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125)
FEW, MANY = 16, 256


def joined(images: Sequence[ImageTokens]) -> list[Tensor]:
    """The patches of several images, layer by layer."""
    return [torch.cat(layer) for layer in zip(*(image.patches for image in images), strict=True)]


def ranked(category: Category, cache: TokenCache, good: int) -> list[dict[str, Any]]:
    """How well images are ranked with ever fewer patches of the good parts."""
    recipe = find_recipe("default")
    how = Comparison(cache.settings.grid, "sparsemax", recipe.sharpness)
    pooling = Pooling.parse(recipe.pooling)
    memory = joined([cache.tokens(path) for path in sorted(category.normal)[:good]])
    queries = [cache.tokens(image.path) for image in category.test]
    anomalous = [image.anomalous for image in category.test]
    rows: list[dict[str, Any]] = []
    exact: Tensor | None = None
    for share in SHARES:
        found = cover(memory, round(share * len(memory[0])))
        matcher = Matcher([layer[found.kept] for layer in memory], how)
        scores = torch.stack(
            [pooling(how.map_of(matcher.distances(query.patches))) for query in queries]
        )
        exact = scores if exact is None else exact
        rows.append(
            {
                "share": share,
                "patches": int(found.kept.sum()),
                "radius": found.radius,
                "bound": found.bound(recipe.sharpness),
                "I-AUROC": image_metrics(anomalous, scores.numpy())["I-AUROC"],
                "change": float((scores - exact).abs().max()),
                "score": float(exact.median()),
            }
        )
    return rows


def timed(categories: Sequence[Category], cache: TokenCache, rounds: int) -> dict[str, Any]:
    """Milliseconds of matching with 16, 256 and a coreset of 256 images."""
    paths = [image.path for category in categories for image in category.test]
    chosen = paths[:: max(1, len(paths) // (MANY + 3))][: MANY + 3]
    queries = [cache.tokens(path) for path in chosen[:3]]
    memory = joined([cache.tokens(path) for path in chosen[3:]])
    size = len(memory[0]) // (len(chosen) - 3)
    how = Comparison(cache.settings.grid)
    start = time.perf_counter()
    found = cover(memory, compact_count(len(memory[0])))
    learn = time.perf_counter() - start
    banks = {
        f"{FEW}": [layer[: FEW * size] for layer in memory],
        f"{MANY} compact": [layer[found.kept] for layer in memory],
        f"{MANY}": memory,
    }
    matchers = {name: Matcher(bank, how) for name, bank in banks.items()}
    taken: dict[str, list[float]] = {name: [] for name in banks}
    for matcher in matchers.values():
        matcher.distances(queries[0].patches)  # what is made at the first question
    for _ in range(rounds):
        for query in queries:
            for name, matcher in matchers.items():
                start = time.perf_counter()
                matcher.distances(query.patches)
                taken[name].append(1000 * (time.perf_counter() - start))
    return {
        "rows": {name: len(bank[0]) for name, bank in banks.items()},
        "ms": {name: median(laps) for name, laps in taken.items()},
        "radius": found.radius,
        "seconds to choose": learn,
    }


def text(out: Path) -> Iterator[str]:
    """The tables of what is there."""
    yield "| product | patches | radius | bound | I-AUROC | largest change | median score |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for file in sorted(out.glob("*.compact.json")):
        for row in json.loads(file.read_text(encoding="utf-8")):
            bound = "none" if row["bound"] is None else f"{row['bound']:.3f}"
            yield (
                f"| {file.name.partition('.')[0]} | {row['patches']} | {row['radius']:.3f}"
                f" | {bound} | {100 * row['I-AUROC']:.1f} | {row['change']:.3f}"
                f" | {row['score']:.3f} |"
            )
    if (times := out / "times.json").exists():
        found = json.loads(times.read_text(encoding="utf-8"))
        few = found["ms"][f"{FEW}"]
        yield f"chosen in {found['seconds to choose']:.0f} s, radius {found['radius']:.3f}"
        for name, milliseconds in found["ms"].items():
            rows = found["rows"][name]
            yield f"K = {name}: {rows} rows, {milliseconds:.0f} ms, {milliseconds / few:.1f} times"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--products", default="")
    parser.add_argument("--good", type=int, default=8)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    use_threads(options.threads)
    out = Path(options.output)
    out.mkdir(parents=True, exist_ok=True)
    if options.suite:
        categories = Suite.read(Path(options.suite), ()).load()
        cache = TokenCache(find_recipe("paper-offline").settings())
        if options.times:
            _write(out / "times.json", timed(categories, cache, options.rounds))
        for category in [] if options.times else categories:
            if not options.products or category.name in options.products.split(","):
                found = ranked(category, cache, options.good)
                _write(out / f"{category.name}.compact.json", found)
                print(category.name, flush=True)
    print("\n".join(text(out)))


def _write(file: Path, content: Any) -> None:
    with atomic_path(file) as temporary:
        temporary.write_text(json.dumps(content), encoding="utf-8")


if __name__ == "__main__":
    main()
