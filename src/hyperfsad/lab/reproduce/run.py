"""A reproduction from suite to page; what was measured before is never measured again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ...messages import Notice, Notify, silent
from ..run import Outcome, Request, Suite, run_benchmark
from ..tables import Table, write_table
from ..timing import efficiency_table
from .page import write_page
from .plan import (
    EFFICIENCY,
    FIGURES,
    IMPORT_PRESETS,
    PAPER_PRESETS,
    command,
    images_left,
    make_plan,
)
from .sections import PRESET_TITLES, make_sections


@dataclass(frozen=True)
class Reproduction:
    """What was written, and what could not be done."""

    page: Path
    absent: tuple[Notice, ...]


def reproduce(
    suite: Suite,
    out: Path,
    request: Request,
    presets: Sequence[str] = PAPER_PRESETS,
    *,
    file: str = "the suite",
    progress: Callable[[int], Callable[[int], None]] = lambda _: lambda __: None,
    notify: Notify = silent,
) -> Reproduction:
    """Runs every preset in a folder of its own below `out`, then writes index.html.

    A killed run goes on where it stopped, and the same call always writes the same bytes: times
    are measured once and stored. `file` is where the suite was read, for sentences about it;
    `progress(total)` returns the function that is called with the number of images just done.
    """
    caches = request.caches(notify)
    plan = make_plan(suite, request, presets, caches, file)
    for absent in plan.absent:
        notify(absent)
    notify(Notice("images-to-score", images=images_left(plan, out)))
    advance = progress(len(plan.passes) * sum(len(each.test) for each in plan.categories))
    outcomes: dict[str, Outcome] = {}
    efficiency: Table | None = None
    for number, preset in enumerate(plan.presets, start=1):
        facts = {"number": number, "count": len(plan.presets), "title": PRESET_TITLES[preset]}
        notify(Notice("running-preset", **facts))
        encoders = plan.encoders[preset]
        if preset == EFFICIENCY:
            efficiency = efficiency_table(
                plan.categories,
                encoders,
                shots=plan.sets.shots,
                recipe=request.recipe,
                work=out / preset / "work",
                device=request.device,
                engine=request.engine,
            )
            write_table(efficiency, out / preset, EFFICIENCY)
            continue
        outcomes[preset] = run_benchmark(
            replace(plan.suite, encoders=encoders),
            preset,
            out / preset,
            request if preset in IMPORT_PRESETS else replace(request, imports=()),
            caches=caches,
            progress=lambda _: advance,
            figures=FIGURES.get(preset, {}) if plan.figures else None,
        )
    sections = list(make_sections(plan, outcomes, efficiency))
    page = write_page(plan, outcomes, sections, out, command(request, presets, file))
    return Reproduction(page, plan.absent)
