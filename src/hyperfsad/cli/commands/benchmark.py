"""The command `benchmark`. Heavy imports wait until it runs, since the parser needs its name."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ...detector.recipes import find_recipe
from ...errors import UsageError
from ..console import DONE, Bar, printable, say

if TYPE_CHECKING:
    from ...bench.run import Suite


def benchmark(options: argparse.Namespace) -> int:
    """Runs a preset on one data set, or on those of a suite, and prints its tables."""
    from ...bench.run import Source, Suite, run_benchmark
    from ...bench.tables import to_markdown
    from ...encoders.engines import use_threads

    use_threads(options.threads)
    encoders = tuple(options.backbone or [find_recipe(options.recipe).backbone])
    if options.suite:
        suite = Suite.read(Path(options.suite), encoders)
    elif options.dataset and options.root:
        source = Source(options.dataset, options.root)
        suite = Suite({options.dataset: source}, encoders, options.categories)
    else:
        raise UsageError("Give --dataset and --root, or --suite with a file that names several.")
    if options.preset == "efficiency":
        return _efficiency(options, suite)
    bar = Bar()
    with bar:
        outcome = run_benchmark(
            suite,
            options.preset,
            Path(options.output),
            shots=options.shots,
            runs=options.runs,
            seed=options.seed,
            eval_size=options.eval_size,
            resolution=options.resolution,
            rotations=options.rotations,
            recipe=options.recipe,
            device=options.device,
            engine=options.engine,
            cache_limit=round(options.cache_limit * (1 << 30)),
            progress=bar.start,
            figures=options.figures,
            notify=say,
        )
    for table in outcome.tables.values():
        print(printable(to_markdown(table)))
    print(f"Tables and records: {options.output}")
    return DONE


def _efficiency(options: argparse.Namespace, suite: "Suite") -> int:
    from ...bench.efficiency import efficiency_table
    from ...bench.tables import to_markdown, write_table

    table = efficiency_table(
        suite.load(),
        suite.encoders,
        shots=options.shots,
        resolution=options.resolution,
        recipe=options.recipe,
        device=options.device,
        engine=options.engine,
        notify=say,
    )
    write_table(table, Path(options.output), "efficiency")
    print(printable(to_markdown(table)))
    print(f"Tables: {options.output}")
    return DONE
