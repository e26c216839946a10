"""A cut of the week of `python -m benchmarks.station --only week`: nothing acknowledged is lost."""

from pathlib import Path

from tests.serve.week import Plan, Week


def test_a_cut_of_the_week(tiny: str, tmp_path: Path) -> None:
    plan = Plan().times(0.02)
    week = Week(tiny, tmp_path, plan)
    try:
        week.run()
    finally:
        week.close()
    assert week.done["images"] >= plan.inspections
    assert week.done["teachings"] >= plan.teachings
    assert (week.done["kills"], week.done["restores"]) == (plan.kills, plan.restores)
    assert week.done["interrupted migrations"] >= plan.migrations
    memory, descriptors = week.growth()
    assert memory < 1.25
    assert descriptors < 1.5
