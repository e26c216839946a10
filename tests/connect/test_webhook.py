"""The webhook: a real server that fails, hangs and comes back."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hyperfsad import HyperFSAD
from hyperfsad.cli import main
from hyperfsad.connect import ConnectSettings, Webhook
from hyperfsad.connect.delivery import REFUSED, Delivery
from hyperfsad.connect.outbox import PROGRESS, Outbox
from hyperfsad.connect.sinks.webhook import read_headers
from hyperfsad.errors import UsageError
from hyperfsad.watch import Watcher, watch
from hyperfsad.watch.ledger import Ledger
from tests.cli.running import refusal
from tests.codes import codes, raises
from tests.conftest import make_picture, read_results
from tests.waiting import DEADLINE, until

SECRET = "s3cret-t0ken"


TOLD = ("number", "origin", "verdict", "reason")
"""What a record has more when it is sent."""


class Receiver:
    """A web server that answers as it is told, and takes what comes after that."""

    def __init__(self) -> None:
        self.answers: list[int | str] = []
        self.taken: list[dict[str, Any]] = []
        self.told: list[dict[str, Any]] = []
        self.keys: list[str] = []
        self.tries: list[tuple[str, str, str | None]] = []
        self.released = threading.Event()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.tries.append((self.command, self.path, self.headers["Authorization"]))
                answer = receiver.answers.pop(0) if receiver.answers else 204
                if answer == "hang":
                    receiver.released.wait(DEADLINE)
                    return
                if answer == "drop":
                    return
                if answer == 204:
                    assert self.headers["Content-Type"] == "application/json"
                    sent = json.loads(body)
                    receiver.told.append({name: sent.pop(name) for name in TOLD})
                    receiver.taken.append(sent)
                    receiver.keys.append(self.headers["Idempotency-Key"])
                if isinstance(answer, str):
                    self.send_response(302)
                    self.send_header("Location", answer)
                else:
                    self.send_response(answer)
                self.end_headers()

            def do_GET(self) -> None:
                receiver.tries.append((self.command, self.path, self.headers["Authorization"]))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hooks/{SECRET}"
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self.released.set()
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "*")
    receiver = Receiver()
    yield receiver
    receiver.close()


def record(image: str, anomalous: bool | None = True, error: str | None = None) -> dict[str, Any]:
    return {"image": image, "stamp": [1, 2], "anomalous": anomalous, "error": error}


def _places(number: object, check: int) -> str:
    return json.dumps({"origin": "x", "places": {"webhook": [number, check]}})


def hook(receiver: Receiver, on: tuple[str, ...] = ("all",), **options: Any) -> Webhook:
    headers = [f"Authorization: Bearer {SECRET}"]
    return Webhook(receiver.url, on, headers, **{"pause": 0.01, "timeout": DEADLINE, **options})


class Sending:
    """A ledger and its outbox."""

    def __init__(self, folder: Path, webhook: Webhook) -> None:
        self.said: list[str] = []
        self._stack = contextlib.ExitStack()
        self.ledger = self._stack.enter_context(Ledger(folder))
        self.outbox = Outbox(self.ledger.path, self.said.append)
        self.delivery = Delivery(webhook, self.outbox, self.said.append).start()

    def add(self, *records: dict[str, Any]) -> None:
        for added in records:
            self.ledger.add(added)
            self.outbox.publish()

    def codes(self) -> list[str | None]:
        return codes(self.said)

    def close(self, grace: float = DEADLINE) -> int:
        left = self.delivery.close(grace)
        self._stack.close()
        return left


def test_all_arrives_in_order_whatever_fails_before(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answers = [500, "drop", 503, 408, 429, 204, 502]
    sending = Sending(tmp_path, hook(receiver))
    records = [record(f"{index} ä.png") for index in range(4)] + [record("caf\udce9.png")]
    sending.add(*records)
    assert sending.close() == 0
    assert receiver.taken == records
    assert len(set(receiver.keys)) == 5
    assert [one["number"] for one in receiver.told] == [1, 2, 3, 4, 5]
    assert {one["verdict"] for one in receiver.told} == {"anomalous"}
    assert {auth for _, _, auth in receiver.tries} == {f"Bearer {SECRET}"}
    assert len(receiver.tries) == 5 + 6
    assert sending.codes() == ["delivery-retries", "delivery-recovered"] * 2
    assert SECRET not in "".join(sending.said)


def test_a_receiver_that_hangs_is_tried_again(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answers = ["hang"]
    sending = Sending(tmp_path, hook(receiver, timeout=0.3))
    sending.add(record("1.png"))
    assert sending.close() == 0
    assert set(receiver.keys) == {receiver.keys[0]}  # perhaps twice, where the answer is slow
    assert "no answer within 0.3 seconds" in sending.said[0]


def test_what_is_not_delivered_waits_for_the_next_start(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answers = [204, *[500] * 10_000]
    first = Sending(tmp_path, hook(receiver))
    first.add(*(record(f"{index}.png") for index in range(4)))
    until(lambda: len(receiver.tries) > 3)
    assert first.close(grace=0.1) == 3
    until(lambda: not first.delivery._thread.is_alive())  # its last request is answered
    receiver.answers = []
    second = Sending(tmp_path, hook(receiver))
    second.add(record("4.png"))
    assert second.close() == 0
    assert [taken["image"] for taken in receiver.taken] == [f"{index}.png" for index in range(5)]
    third = Sending(tmp_path, hook(receiver))
    assert third.close() == 0
    assert len(receiver.taken) == 5


def test_a_server_that_is_not_there(receiver: Receiver, tmp_path: Path) -> None:
    url, port = receiver.url, receiver.server.server_port
    receiver.close()
    sending = Sending(tmp_path, Webhook(url, ["all"], pause=0.01))
    sending.add(record("1.png"))
    until(lambda: sending.codes() == ["delivery-retries"])
    assert sending.close(grace=0.05) == 1
    assert f"http://127.0.0.1:{port} " in sending.said[0]
    assert "Connection refused" in sending.said[0]
    assert SECRET not in "".join(sending.said)


def test_what_is_refused_for_good_is_noted_and_the_next_goes_on(
    receiver: Receiver, tmp_path: Path
) -> None:
    receiver.answers = [400, 204, 404]
    sending = Sending(tmp_path, hook(receiver))
    records = [record(f"{index}.png") for index in range(4)]
    sending.add(*records)
    assert sending.close() == 0
    assert receiver.taken == [records[1], records[3]]
    notes = [json.loads(row) for row in (tmp_path / REFUSED).read_text().splitlines()]
    assert [(note["to"], note["answer"], note["record"]["image"]) for note in notes] == [
        ("webhook", "400 Bad Request", "0.png"),
        ("webhook", "404 Not Found", "2.png"),
    ]
    assert sending.codes() == ["delivery-refused"] * 2


def test_redirects_are_not_followed(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answers = ["file:///etc/passwd", "/elsewhere", "ftp://127.0.0.1/x"]
    sending = Sending(tmp_path, hook(receiver))
    sending.add(record("1.png"))
    assert sending.close() == 0
    assert [method for method, _, _ in receiver.tries] == ["POST"] * 4
    assert {path for _, path, _ in receiver.tries} == {f"/hooks/{SECRET}"}
    assert "redirects are not followed" in sending.said[0]
    assert receiver.taken == [record("1.png")]


@pytest.mark.parametrize(
    ("on", "wanted"),
    [
        (("anomalous",), ["bad"]),
        (("error",), ["broken"]),
        (("anomalous", "error"), ["bad", "broken"]),
        (("all",), ["bad", "good", "broken"]),
    ],
)
def test_only_what_is_asked_for_is_sent(
    receiver: Receiver, tmp_path: Path, on: tuple[str, ...], wanted: list[str]
) -> None:
    sending = Sending(tmp_path, hook(receiver, on))
    sending.add(record("bad", True), record("good", False), record("broken", None, "is damaged"))
    assert sending.close() == 0
    assert [taken["image"] for taken in receiver.taken] == wanted


@pytest.mark.parametrize(
    "text", [None, "", "{", '{"places": 3}', _places(1, 5), _places(9999, 0), _places("x", 0)]
)
def test_results_from_before_the_webhook_are_not_sent(
    receiver: Receiver, tmp_path: Path, text: str | None
) -> None:
    """Nor if the state is damaged, which is reported."""
    with Ledger(tmp_path) as ledger:
        ledger.add(record("old.png"))
    if text is not None:
        (tmp_path / PROGRESS).write_text(text)
    sending = Sending(tmp_path, hook(receiver))
    assert sending.codes() == ["outbox-state-unfit"] * (text is not None)
    sending.add(record("new.png"))
    assert sending.close() == 0
    assert [taken["image"] for taken in receiver.taken] == ["new.png"]


def test_a_record_just_before_the_end_is_sent(receiver: Receiver, tmp_path: Path) -> None:
    """Many times, as the outbox may be anywhere between two records when it is closed."""
    for number in range(40):
        sending = Sending(tmp_path, hook(receiver))
        sending.add(record(f"{number}.png"))
        assert sending.close() == 0
    assert [taken["image"] for taken in receiver.taken] == [f"{n}.png" for n in range(40)]


def test_the_end_waits_no_longer_than_it_may(receiver: Receiver, tmp_path: Path) -> None:
    receiver.answers = ["hang"] * 5
    sending = Sending(tmp_path, hook(receiver))
    sending.add(record("1.png"))
    until(lambda: receiver.tries)
    began = time.monotonic()
    assert sending.close(grace=0.1) == 1
    assert time.monotonic() - began < DEADLINE / 2  # not until the receiver lets go


ADDRESSES = ["", "example.org", "file:///etc/passwd", "ftp://x/y", "https://", "http://x:y/"]
ADDRESSES += [f"http://x/{SECRET} y", f"http://x/\n{SECRET}", "http://ä.org/"]
HEADERS = [SECRET, f"A: {SECRET}\r\nB: c", f"ä: {SECRET}", f": {SECRET}", "A: ä"]


@pytest.mark.parametrize(
    ("code", "options"),
    [
        *(("webhook-address", {"url": url}) for url in ADDRESSES),
        ("webhook-password", {"url": f"https://me:{SECRET}@example.org/"}),
        *(("webhook-header", {"headers": [header]}) for header in HEADERS),
        ("webhook-own-header", {"headers": ["content-length: 3"]}),
        ("webhook-events", {"on": ["good"]}),
        ("webhook-events", {"on": []}),
    ],
)
def test_settings_that_cannot_be_used(code: str, options: dict[str, Any]) -> None:
    with raises(UsageError, code) as caught:
        Webhook(**{"url": "http://x/", **options})
    assert SECRET not in str(caught.value)


def test_headers_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "headers").write_text(f"Authorization: Bearer {SECRET}\n\nX-Line: 4\n")
    (tmp_path / "headers").chmod(0o600)
    headers = read_headers(["A: b", f"@{tmp_path / 'headers'}"])
    assert Webhook("http://x/", headers=headers).headers == {
        "A": "b",
        "Authorization": f"Bearer {SECRET}",
        "X-Line": "4",
    }
    with raises(UsageError, "secret-file-unreadable"):
        read_headers(["@nowhere"])


@pytest.fixture
def camera(tmp_path: Path) -> Path:
    folder = tmp_path / "camera"
    folder.mkdir()
    for seed in range(4):
        make_picture(seed).save(folder / f"{seed}.png")
    return folder


def test_anomalous_images_are_sent_and_judging_never_waits(
    receiver: Receiver, detector: HyperFSAD, camera: Path, tmp_path: Path
) -> None:
    detector.fit(make_picture(100))
    scores = sorted(detector.predict(camera / f"{seed}.png").score for seed in range(4))
    detector.threshold_ = (scores[1] + scores[2]) / 2
    receiver.answers = ["hang"]
    options: dict[str, Any] = {"interval": 0.02, "settle": 0.05, "heatmaps": False}
    webhook = hook(receiver, ("anomalous",))
    run = watch(detector, camera, tmp_path / "out", connect=ConnectSettings((webhook,)), **options)
    results = [next(run) for _ in range(4)]
    assert receiver.taken == []  # all are judged, though the first delivery hangs
    receiver.released.set()
    until(lambda: len(receiver.taken) == 2)
    run.close()
    records = [sent for sent in read_results(tmp_path / "out") if sent["anomalous"]]
    assert receiver.taken == records
    assert [r.image for r in results if r.anomalous] == [taken["image"] for taken in receiver.taken]


def test_the_command_delivers_and_keeps_secrets(
    receiver: Receiver,
    detector: HyperFSAD,
    camera: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hyperfsad.connect.session.LAST_DELIVERIES", DEADLINE)
    saved = tmp_path / "part.hfsad"
    detector.fit(make_picture(100), threshold=False).save(saved)
    command = ["watch", str(camera), "--detector", str(saved), "-o", str(tmp_path / "out")]
    command += ["--once", "--interval", "0.02", "--settle", "0.05"]
    assert refusal(*command, "--webhook", receiver.url) == "webhook-no-threshold"
    assert refusal(*command, "--webhook-on", "all") == "webhook-missing"
    receiver.answers = [500]
    header = ["--webhook-header", f"Authorization: Bearer {SECRET}"]
    assert main([*command, "--webhook", receiver.url, "--webhook-on", "all", *header]) == 0
    assert receiver.taken == read_results(tmp_path / "out")
    streams = capsys.readouterr()
    assert SECRET not in streams.out + streams.err
    for path in (tmp_path / "out").iterdir():
        assert path.is_dir() or SECRET not in path.read_text()


def test_without_a_threshold_nothing_is_anomalous(detector: HyperFSAD, tmp_path: Path) -> None:
    detector.fit(make_picture(100), threshold=False)
    with raises(UsageError, "webhook-no-threshold"):
        Watcher(
            detector,
            tmp_path / "in",
            tmp_path / "out",
            connect=ConnectSettings((Webhook("http://x/"),)),
        )
    Watcher(
        detector,
        tmp_path / "in",
        tmp_path / "out",
        connect=ConnectSettings((Webhook("http://x/", ["error"]),)),
    )
