"""results.jsonl of a watch: complete records, repaired only at its end, held by one process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hyperfsad.disk.files import FileStamp
from hyperfsad.errors import HyperfsadError, UsageError
from hyperfsad.watch.ledger import CUT_OFF, Digests, Ledger
from tests.codes import codes, raises


def record(image: str, stamp: FileStamp = (1, 2), **more: object) -> dict[str, object]:
    return {"image": image, "stamp": list(stamp), "detector": "d", "error": None, **more}


def write(folder: Path, *images: str) -> bytes:
    with Ledger(folder) as ledger:
        for image in images:
            ledger.add(record(image))
    return (folder / "results.jsonl").read_bytes()


def test_what_has_a_record_is_done_also_after_a_restart(tmp_path: Path) -> None:
    images = ["/a b.png", "/ä.png", os.fsdecode(b"/caf\xe9.png"), "/line\nbreak.png"]
    before = write(tmp_path, *images)
    with Ledger(tmp_path) as ledger:
        assert ledger.count == 4
        assert all(ledger.is_done(image, (1, 2)) for image in images)
        assert not ledger.is_done("/ä.png", (1, 3))
        assert not ledger.is_done("/b.png", (1, 2))
        ledger.add(record("/ä.png", (1, 3)))
        assert ledger.is_done("/ä.png", (1, 3))
        assert ledger.is_done("/ä.png", (1, 2))
        assert ledger.end == os.path.getsize(tmp_path / "results.jsonl")
    assert (tmp_path / "results.jsonl").read_bytes().startswith(before)


@pytest.mark.parametrize("keep", [1, 20, -1])
def test_a_record_that_was_cut_off_is_moved_aside(tmp_path: Path, keep: int) -> None:
    whole = write(tmp_path, "a", "b")
    last = json.dumps(record("c", text="x" * 200_000)).encode()
    cut = last[:keep]
    (tmp_path / "results.jsonl").write_bytes(whole + cut)
    said: list[str] = []
    with Ledger(tmp_path, said.append) as ledger:
        assert not ledger.is_done("c", (1, 2))
        ledger.add(record("c"))
    assert codes(said) == ["watch-record-cut-off"]
    assert (tmp_path / CUT_OFF).read_bytes() == cut + b"\n"
    assert write(tmp_path) == whole + json.dumps(record("c")).encode() + b"\n"


def test_a_block_of_zeros_is_moved_aside_and_a_missing_end_is_added(tmp_path: Path) -> None:
    whole = write(tmp_path, "a")
    (tmp_path / "results.jsonl").write_bytes(whole + bytes(100))
    assert write(tmp_path) == whole
    (tmp_path / "results.jsonl").write_bytes(whole[:-1])
    said: list[str] = []
    with Ledger(tmp_path, said.append) as ledger:
        assert ledger.is_done("a", (1, 2))
    assert write(tmp_path) == whole
    assert not said


def test_foreign_records_in_the_middle_stay_and_harm_nothing(tmp_path: Path) -> None:
    whole = write(tmp_path, "a") + b'garbage\n[1]\n{"image": 3}\n{"stamp": [1]}\n\n'
    (tmp_path / "results.jsonl").write_bytes(whole)
    with Ledger(tmp_path) as ledger:
        assert ledger.is_done("a", (1, 2))
    assert write(tmp_path, "b").startswith(whole)


def test_only_one_at_a_time(tmp_path: Path) -> None:
    with Ledger(tmp_path):
        with (
            raises(HyperfsadError, "target-locked", path=tmp_path) as caught,
            Ledger(tmp_path),
        ):
            pass
        assert caught.value.facts["holder"].startswith(f"{os.getpid()} on ")
        code = "import sys; from hyperfsad.watch.ledger import *; write = Ledger(Path(sys.argv[1]))"
        command = [sys.executable, "-c", f"{code}\nwith write: pass", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "is writing to" in done.stderr
    write(tmp_path, "a")  # free again


@pytest.mark.parametrize("name", ["results.jsonl", "results.partial.jsonl"])
def test_results_of_detect_are_not_appended_to(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"image": "a", "error": null}\n')
    with raises(UsageError, "watch-results-foreign", folder=tmp_path):
        write(tmp_path)


def test_a_file_that_another_program_changes_is_not_written_to(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.add(record("a"))
        (tmp_path / "results.jsonl").unlink()
        with raises(HyperfsadError, "watch-results-changed"):
            ledger.add(record("b"))


def test_a_full_disk_leaves_complete_records(tmp_path: Path) -> None:
    """A limit on the size of files lets a part of the record through, as a full disk does."""
    pytest.importorskip("resource")
    code = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from hyperfsad.errors import HyperfsadError\n"
        "from hyperfsad.watch.ledger import Ledger\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"with Ledger(Path({str(tmp_path)!r})) as ledger:\n"
        "    ledger.add({'image': 'a', 'stamp': [1, 2]})\n"
        "    size = ledger.end\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, size + 10))\n"
        "    try: ledger.add({'image': 'b', 'stamp': [1, 2]})\n"
        "    except HyperfsadError:\n"
        "        print('refused', ledger.path.stat().st_size == size == ledger.end)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "refused True\n", done.stderr


def test_skipped_images_stay_skipped(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.skip({"a": (1, 2), os.fsdecode(b"\xe9"): (3, 4)})
    with Ledger(tmp_path) as ledger:
        assert not ledger.is_done("a", (1, 2))
        ledger.skip({"b": (1, 2)})  # not the first start any more
        assert not ledger.is_done("b", (1, 2))
        assert ledger.is_done("a", (1, 2))
        assert ledger.is_done(os.fsdecode(b"\xe9"), (3, 4))
        assert not ledger.is_done("a", (1, 3))


def test_many_digests() -> None:
    numbers = [pow(3, index, 2**64) for index in range(1, 30_000)]
    digests = Digests(numbers[:9_000])
    for number in numbers[9_000:]:
        digests.add(number)
    assert all(number in digests for number in [*numbers, 3])
    assert not any(number + 1 in digests for number in numbers)
    assert 2**64 - 1 not in digests
