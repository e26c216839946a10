"""Numbered records on a disk."""

import json
from pathlib import Path

import pytest

from hyperfsad.connect import outbox as outbox_module
from hyperfsad.connect.outbox import PROGRESS, Outbox
from hyperfsad.errors import HyperfsadError
from tests.codes import codes, raises


def numbers(outbox: Outbox, name: str) -> list[int]:
    found = [json.loads(row) for _, row in outbox.after(outbox.begin(name), 10**6)]
    return [record["number"] for record in found]


def test_records_have_numbers_that_go_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    first = Outbox(path)
    first.begin("plc")
    assert [first.add({"a": 1}), first.add({"a": 2})] == [1, 2]
    second = Outbox(path)
    assert second.newest == 2
    assert second.origin == first.origin
    assert numbers(second, "plc") == [1, 2]
    assert second.add({"a": 3}) == 3
    assert numbers(second, "plc") == [1, 2, 3]
    assert numbers(second, "new one") == []


def test_each_receiver_has_a_place_of_its_own(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path / "records.jsonl")
    outbox.begin("slow")
    place = outbox.begin("fast")
    for _ in range(5):
        outbox.add({})
    outbox.save("fast", outbox.after(place)[3][0])
    again = Outbox(outbox.path)
    assert numbers(again, "fast") == [5]
    assert numbers(again, "slow") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("rest", [b'{"a": ', b'{"a": 9}'])
def test_a_record_that_was_cut_off_is_none(tmp_path: Path, rest: bytes) -> None:
    outbox = Outbox(tmp_path / "records.jsonl")
    outbox.begin("plc")
    outbox.add({"a": 1})
    with outbox.path.open("ab") as file:
        file.write(rest)
    again = Outbox(outbox.path)
    assert again.newest == 1
    assert again.add({"a": 2}) == 2
    assert numbers(again, "plc") == [1, 2]


def test_a_file_that_another_program_changed_is_refused(tmp_path: Path) -> None:
    """Else a number would be given twice."""
    outbox = Outbox(tmp_path / "records.jsonl")
    outbox.add({})
    outbox.path.unlink()
    with raises(HyperfsadError, "watch-results-changed"):
        outbox.add({})


def test_another_file_of_the_same_name_has_another_origin(tmp_path: Path) -> None:
    path, said = tmp_path / "records.jsonl", list[str]()
    first = Outbox(path)
    place = first.begin("plc")
    for index in range(3):
        first.add({"a": index})
    first.save("plc", first.after(place)[1][0])
    path.unlink()
    for index in range(3):
        Outbox(path).add({"b": index})
    second = Outbox(path, said.append)
    assert numbers(second, "plc") == []
    assert codes(said) == ["outbox-state-unfit"]
    assert second.origin != first.origin


def test_what_all_have_is_removed_and_the_last_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "LARGEST", 2000)
    monkeypatch.setattr(outbox_module, "KEPT", 5)
    outbox = Outbox(tmp_path / "records.jsonl")
    place = outbox.begin("fast")
    largest = 0
    for index in range(400):
        outbox.add({"text": "x" * 30})
        ((place, _),) = outbox.after(place)
        outbox.save("fast", place)
        assert place.number == index + 1
        largest = max(largest, outbox.path.stat().st_size)
    assert largest < 4200
    again = Outbox(outbox.path)
    assert again.newest == 400
    assert numbers(again, "fast") == []
    assert [json.loads(row)["number"] for _, row in again.after(again.back(5))][-5:] == [
        *range(396, 401)
    ]


def test_what_one_has_not_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "LARGEST", 1000)
    monkeypatch.setattr(outbox_module, "KEPT", 5)
    outbox = Outbox(tmp_path / "records.jsonl")
    outbox.begin("away")
    for _ in range(200):
        outbox.add({"text": "x" * 30})
    assert numbers(Outbox(outbox.path), "away") == [*range(1, 201)]


def test_progress_that_cannot_be_noted_stops_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    outbox = Outbox(tmp_path / "records.jsonl", said.append)
    (tmp_path / PROGRESS).mkdir()
    assert numbers(outbox, "plc") == []
    assert outbox.add({}) == 1
    assert codes(said) == ["outbox-state-unsaved"]
