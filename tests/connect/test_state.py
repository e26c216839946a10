"""The state machine, state by state: only one way leads to "good", and all others to "none"."""

from typing import Any

import pytest

from hyperfsad.connect.state import Line, Live, told, verdict_of

GOOD: dict[str, Any] = {"anomalous": False, "level": 0.4}


class Bench:
    """A line with a clock of ours, and all that it has shown."""

    def __init__(self, **options: Any) -> None:
        self.now = 100.0
        self.shown: list[Live] = []
        self.line = Line(self.shown.append, clock=lambda: self.now, **{"hold": 10.0, **options})
        self._number = 0
        self.line.begin()

    def ready(self) -> "Bench":
        self.line.look(None)
        return self

    def judge(self, record: dict[str, Any] = GOOD, trigger: int | None = None, **more: Any) -> None:
        """A record whose picture came now, or when `arrived` says."""
        arrived = more.pop("arrived", self.now)
        record = {**record, **more}
        if arrived is not None and self.line.is_late(arrived, trigger):
            record["late"] = True
        self._number += 1
        self.line.judged(told(record, self._number, "o"), arrived, trigger)

    def after(self, seconds: float) -> None:
        self.now += seconds
        self.line.look(None)

    @property
    def seen(self) -> tuple[str, str, str]:
        live = self.line.live
        return live.state, live.verdict, live.reason

    def never_good(self) -> bool:
        return all(live.verdict != "good" for live in self.shown)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"anomalous": False}, ("good", "")),
        ({"anomalous": True}, ("anomalous", "")),
        ({"anomalous": None}, ("none", "unjudged")),
        ({}, ("none", "unjudged")),
        ({"anomalous": False, "error": "cut off"}, ("none", "error")),
        ({"anomalous": False, "late": True}, ("none", "late")),
        ({"anomalous": 0}, ("anomalous", "")),  # only a false that is one lets a part pass
    ],
)
def test_what_a_record_says(record: dict[str, Any], said: tuple[str, str]) -> None:
    assert verdict_of(record) == said
    sent = told(record, 7, "o")
    assert (sent["verdict"], sent["reason"], sent["number"], sent["origin"]) == (*said, 7, "o")
    assert (sent["anomalous"] is None) == (said[0] == "none")


def test_starting_says_that_it_was_restarted_until_all_is_well() -> None:
    bench = Bench()
    assert bench.seen == ("starting", "none", "restart")
    assert bench.line.trigger() is None
    bench.line.look("restart")
    assert bench.seen == ("starting", "none", "restart")
    bench.line.look(None)
    assert bench.seen == ("ready", "none", "waiting")


def test_records_that_are_caught_up_on_are_no_verdict_now() -> None:
    bench = Bench().ready()
    bench.judge(arrived=None)
    assert bench.seen == ("ready", "none", "waiting")
    assert bench.line.live.newest == 1
    assert bench.never_good()


def test_a_part_from_trigger_to_acknowledgement() -> None:
    bench = Bench().ready()
    assert bench.line.trigger() == 1
    assert bench.seen == ("busy", "none", "waiting")
    assert bench.line.trigger() is None  # one part at a time
    bench.now += 1
    bench.judge()
    assert bench.seen == ("result", "good", "")
    live = bench.line.live
    assert (live.number, live.trigger, live.level, live.newest) == (1, 1, 0.4, 1)
    assert not bench.line.acknowledge(9)
    assert bench.seen == ("result", "good", "")
    assert bench.line.acknowledge(1)
    assert bench.seen == ("ready", "none", "waiting")
    assert bench.line.live.number == 0


def test_a_verdict_is_shown_for_a_while() -> None:
    bench = Bench().ready()
    bench.judge()
    bench.after(9.9)
    assert bench.seen == ("result", "good", "")
    bench.after(0.2)
    assert bench.seen == ("ready", "none", "silence")


def test_a_new_trigger_takes_the_old_verdict_away() -> None:
    bench = Bench().ready()
    bench.judge()
    assert bench.line.trigger() == 1
    assert bench.seen == ("busy", "none", "waiting")


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"anomalous": True}, ("anomalous", "")),
        ({"anomalous": None}, ("none", "unjudged")),
        ({"anomalous": None, "error": "cut off"}, ("none", "error")),
    ],
)
def test_what_is_not_good_is_shown_as_what_it_is(
    record: dict[str, Any], said: tuple[str, str]
) -> None:
    bench = Bench().ready()
    bench.line.trigger()
    bench.judge(record)
    assert bench.seen == ("result", *said)
    assert bench.line.live.counts[said[0]] == 1


def test_a_trigger_without_an_answer_is_told_as_late() -> None:
    bench = Bench(deadline=0.5).ready()
    bench.line.trigger()
    bench.after(0.4)
    assert bench.seen == ("busy", "none", "waiting")
    bench.after(0.2)
    assert bench.seen == ("result", "none", "late")
    assert (bench.line.live.number, bench.line.live.late) == (0, 1)


def test_the_answer_to_a_trigger_that_was_told_late_never_answers_the_next() -> None:
    bench = Bench(deadline=0.5).ready()
    bench.line.trigger()
    bench.after(0.6)  # told as late
    bench.line.trigger()
    bench.now += 0.1
    bench.judge()  # the first picture, which came as late as that
    assert bench.seen == ("busy", "none", "waiting")
    bench.judge()
    assert bench.seen == ("result", "good", "")
    assert bench.line.live.number == 2


def test_a_late_answer_after_its_acknowledgement_is_not_shown() -> None:
    bench = Bench(deadline=0.5).ready()
    bench.line.trigger()
    bench.after(0.6)
    assert bench.line.acknowledge(0)
    bench.judge()
    assert bench.seen == ("ready", "none", "waiting")
    assert bench.never_good()
    assert bench.line.live.counts["none"] == 1  # its record says late, too


def test_a_picture_that_never_comes_is_not_waited_for_without_end() -> None:
    bench = Bench(deadline=0.5).ready()
    bench.line.trigger()
    bench.after(0.6)
    bench.after(10.0)
    bench.line.trigger()
    bench.judge()
    assert bench.seen == ("result", "good", "")


def test_a_picture_from_before_the_trigger_does_not_answer_it() -> None:
    bench = Bench().ready()
    bench.line.trigger()
    bench.judge(arrived=bench.now - 1)
    assert bench.seen == ("busy", "none", "waiting")


def test_a_trigger_with_a_number_has_only_its_own_answer() -> None:
    bench = Bench().ready()
    taken: list[int] = []
    bench.line.on_trigger.append(taken.append)
    bench.line.trigger()
    bench.judge(trigger=7)
    assert bench.seen == ("busy", "none", "waiting")
    bench.judge(trigger=1)
    assert bench.seen == ("result", "good", "")
    assert taken == [1]


def test_without_triggers_a_verdict_that_comes_too_late_is_no_verdict() -> None:
    bench = Bench(deadline=0.5).ready()
    bench.judge(arrived=bench.now - 0.6)
    assert bench.seen == ("result", "none", "late")
    assert bench.line.live.counts == {"none": 1, "good": 0, "anomalous": 0}


def test_a_backlog_is_not_shown_as_if_it_were_now() -> None:
    """Without a deadline its records are good, and what is shown is still about now."""
    bench = Bench().ready()
    bench.judge(arrived=bench.now - 60)
    assert bench.seen == ("result", "none", "late")
    assert bench.line.live.counts["good"] == 1


@pytest.mark.parametrize("problem", ["disk", "fault"])
@pytest.mark.parametrize("before", ["ready", "busy", "result"])
def test_a_fault_takes_every_verdict_away(problem: Any, before: str) -> None:
    bench = Bench().ready()
    if before == "busy":
        bench.line.trigger()
    elif before == "result":
        bench.judge()
    assert bench.line.live.state == before
    bench.line.look(problem)
    assert bench.seen == ("fault", "none", problem)
    assert bench.line.trigger() is None
    bench.judge()
    assert bench.seen == ("fault", "none", problem)
    bench.line.look(None)
    assert bench.seen == ("ready", "none", "waiting")


def test_kinds_of_faults_can_be_told_apart() -> None:
    bench = Bench().ready()
    bench.line.look("fault")
    bench.line.look("disk")
    assert bench.seen == ("fault", "none", "disk")


@pytest.mark.parametrize("reason", ["stopped", "disk"])
def test_nothing_follows_the_end(reason: Any) -> None:
    bench = Bench().ready()
    bench.judge()
    bench.line.stop(reason)
    assert bench.seen == ("stopped", "none", reason)
    bench.judge()
    bench.line.look(None, beat=True)
    assert bench.line.trigger() is None
    assert bench.seen == ("stopped", "none", reason)


def test_the_heartbeat_grows_with_each_second_that_is_looked_at() -> None:
    bench = Bench().ready()
    before = len(bench.shown)
    bench.line.look(None)
    assert len(bench.shown) == before
    bench.line.look(None, beat=True)
    assert bench.shown[-1].heartbeat == 1
    bench.line.look("disk", beat=True)
    assert bench.shown[-1].heartbeat == 2
