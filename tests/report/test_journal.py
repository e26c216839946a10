"""The journal: what is finished stays, in bounded memory, whatever happens in between."""

import json
from pathlib import Path
from typing import Any

from hyperfsad.disk.files import read_objects
from hyperfsad.report.journal import Journal


def entry(image: str, **more: Any) -> dict[str, Any]:
    return {"stamp": [1, 2], "line": {"image": image, "error": None}, **more}


def begun(path: Path, earlier: Path | None = None, run: str = "r") -> Journal:
    journal = Journal(path, {"run": run})
    journal.start(earlier, lambda _: True)
    return journal


def test_entries_come_back_in_the_order_asked_for(tmp_path: Path) -> None:
    journal = begun(tmp_path / "j")
    names = ["a.png", "ä\u2028b.png", "caf\udce9.png", "c\n.png"]  # \u2028 ends a line elsewhere
    for name in names:
        journal.add(entry(name, picture="x" * 1000))
    backwards = names[::-1]
    assert [e["line"]["image"] for e in journal.entries(backwards)] == backwards
    assert journal.stamp("a.png") == (1, 2)
    assert "b.png" not in journal
    journal.close()
    assert len(list(read_objects(tmp_path / "j"))) == 1 + len(names)


def test_the_last_word_on_an_image_counts(tmp_path: Path) -> None:
    journal = begun(tmp_path / "j")
    journal.add(entry("a.png", turn=1))
    journal.add(entry("a.png", turn=2))
    assert [e["turn"] for e in journal.entries(["a.png"])] == [2]
    journal.close()
    again = begun(tmp_path / "j", tmp_path / "j")
    assert [e["turn"] for e in again.entries(["a.png"])] == [2]


def test_only_a_journal_of_the_same_run_is_taken_up(tmp_path: Path) -> None:
    begun(tmp_path / "j").add(entry("a.png"))
    with (tmp_path / "j").open("a") as file:
        file.write('{"stamp": [1, 2], "line": {"ima')  # killed while writing
    same = begun(tmp_path / "j", tmp_path / "j")
    same.add(entry("b.png"))
    assert [e["line"]["image"] for e in same.entries(["b.png", "a.png"])] == ["b.png", "a.png"]
    other = begun(tmp_path / "j", tmp_path / "j", run="other")
    assert len(other) == 0
    assert json.loads((tmp_path / "j").read_text()) == {"run": "other"}
