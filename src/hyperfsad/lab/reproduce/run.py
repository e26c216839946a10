"""A reproduction from suite to page; what was measured before is never measured again."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from ...messages import Notify, silent
from ..efficiency import efficiency_table
from ..run import Outcome, Suite, run_benchmark
from ..tables import Table, write_table
from ..token_cache import TokenCaches
from .estimate import EVAL_SIZE, estimate
from .latex import write_latex
from .page import write_page
from .plan import EFFICIENCY, METHODS, Absent, Plan, Request, make_plan
from .sections import PRESET_TITLES, make_sections


@dataclass(frozen=True)
class Reproduction:
    """What was written, and what could not be done."""

    page: Path
    latex: Path
    absent: tuple[Absent, ...]


def reproduce(
    suite: Suite,
    out: Path,
    request: Request,
    *,
    file: str = "the suite",
    progress: Callable[[int], Callable[[int], None]] = lambda _: lambda __: None,
    notify: Notify = silent,
) -> Reproduction:
    """Runs every preset in a folder of its own below `out`, then writes index.html and paper.tex.

    A killed run goes on where it stopped, and the same call always writes the same bytes: times
    are measured once and kept. `file` is where the suite was read, for sentences about it;
    `progress(total)` returns the function that is called with the number of images just done.
    """
    caches = TokenCaches(
        device=request.device, engine=request.engine, limit=request.cache_limit, notify=notify
    )
    plan = make_plan(suite, request, caches, file)
    for absent in plan.absent:
        notify(str(absent))
    notify("Measuring a few images with each encoder, to estimate time and disk.")
    notify(str(estimate(plan, caches, out, kept=request.cache_limit > 0)))
    advance = progress(len(plan.passes) * sum(len(each.test) for each in plan.categories))
    outcomes: dict[str, Outcome] = {}
    efficiency: Table | None = None
    for number, preset in enumerate(plan.presets, start=1):
        notify(f"{number} of {len(plan.presets)}: {PRESET_TITLES[preset]}")
        mine = replace(plan.suite, encoders=plan.encoders[preset])
        if preset == EFFICIENCY:
            efficiency = _efficiency(plan, mine, out / preset)
        else:
            outcomes[preset] = _run(plan, mine, preset, out / preset, caches, advance)
    sections = make_sections(plan, outcomes, efficiency)
    page = write_page(plan, outcomes, sections, out, request.command(file))
    latex = write_latex(plan, outcomes, sections, out, request.command(file))
    return Reproduction(page, latex, plan.absent)


def _run(
    plan: Plan,
    suite: Suite,
    preset: str,
    out: Path,
    caches: TokenCaches,
    advance: Callable[[int], None],
) -> Outcome:
    request = plan.request
    return run_benchmark(
        suite,
        preset,
        out,
        shots=request.shots,
        runs=request.runs,
        seed=request.seed,
        supports=request.supports,
        eval_size=EVAL_SIZE,
        recipe=request.recipe,
        imports=request.imports if preset in METHODS else (),
        caches=caches,
        progress=lambda _: advance,
        figures=plan.drawn(preset),
    )


def _efficiency(plan: Plan, suite: Suite, out: Path) -> Table:
    request = plan.request
    table = efficiency_table(
        plan.categories,
        suite.encoders,
        shots=plan.draws.shots,
        recipe=request.recipe,
        device=request.device,
        engine=request.engine,
        kept=out / "work",
        fresh=False,
    )
    write_table(table, out, EFFICIENCY)
    return table
