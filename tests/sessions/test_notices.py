"""wfctl sends each notice about a decision, a failure or the end once to each receiver."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place, call, write_plan

PLAN: dict[str, Any] = {
    "workflow_id": "told",
    "stages": [
        {"id": "stage-1", "name": "Fail", "parameters": {"command": "exit 3"}},
        {
            "id": "stage-2",
            "name": "Judge",
            "success_criteria": "it looks fine",
            "parameters": {"command": "true"},
        },
    ],
}


class Receiver(ThreadingHTTPServer):
    """An HTTP server that receives notices, and can delay, refuse or redirect them."""

    def __init__(self, slow: float = 0, refusals: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.slow = slow
        self.refusals = refusals
        self.notices: list[dict[str, Any]] = []
        self.leads_to = ""

    @property
    def url(self) -> str:
        """Return the address of the server."""
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        """Receive a notice, and answer with success, an error or a redirect."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.slow)
        if self.server.leads_to:
            self.send_response(302)
            self.send_header("Location", self.server.leads_to)
        elif self.server.refusals:
            self.server.refusals -= 1
            self.send_response(500)
        else:
            self.server.notices.append(json.loads(body))
            self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - name in the base class
        """Print no log line."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Start an HTTP server that receives notices, and stop it after the test."""
    with Receiver() as started:
        thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield started
        started.shutdown()
        thread.join()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Create a workflow with a stage that fails and a stage that a person must judge."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder = tmp_path / "root"
    folder.mkdir()
    assert (
        call(
            "--root", str(folder), "init", str(write_plan(folder, PLAN)), "--consent", "trust"
        ).code
        == 0
    )
    return Place(folder)


@pytest.mark.slow
def test_each_notice_is_sent_once_over_all_sessions(place: Place, receiver: Receiver) -> None:
    """wfctl repeats a refused notice, and a second run sends only notices of new events."""
    receiver.refusals = 1  # The receiver refuses the first notice, so it is sent again.
    assert place.call("run", "--notify", receiver.url).code == 6
    kinds = [(n["kind"], n["stage"]) for n in receiver.notices]
    assert kinds == [("failure", "stage-1"), ("decision", "stage-2"), ("end", None)]
    assert receiver.notices[1]["commands"] == ["wfctl stage complete stage-2 --evidence TEXT"]
    assert any("it looks fine" in wait for wait in receiver.notices[2]["waits"])
    place.done("amend", "propose", "--stage", "stage-1", "--set", "parameters.x=1", "--reason", "y")
    place.call("run", "--notify", receiver.url)
    later = receiver.notices[3:]
    assert [n["kind"] for n in later] == ["decision", "end"]
    assert "wfctl amend approve amend-1" in later[0]["commands"]


@pytest.mark.long
@pytest.mark.slow
def test_program_gets_notices_on_stdin(place: Place, tmp_path: Path) -> None:
    """wfctl starts the program without a shell, so its path may contain spaces."""
    program = tmp_path / "tell it.sh"
    program.write_text(f"#!/bin/sh\ncat >> {tmp_path}/told; echo >> {tmp_path}/told\n")
    program.chmod(0o755)
    place.call("run", "--notify", f"'{program}' --flag")
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert [notice["kind"] for notice in told] == ["failure", "decision", "end"]


@pytest.mark.long
@pytest.mark.slow
def test_slow_or_missing_receiver_does_not_stop_the_run(
    place: Place, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends as usual, and warns that the receiver did not accept the notices."""
    monkeypatch.setattr("extensions.notices.notifier._LAST", 0.3)
    receiver.slow = 1.0
    answer = place.call("run", "--notify", receiver.url)
    assert answer.code == 6
    assert "did not accept" in answer.err
    away = place.call("run", "--notify", "/no/such/program")
    assert away.code == 6


@pytest.mark.long
@pytest.mark.slow
def test_receiver_in_the_configuration_needs_approval(place: Place, receiver: Receiver) -> None:
    """wfctl sends no notices to a configured receiver until a person runs `db trust`."""
    config = place.path / ".wfctl" / "config.toml"
    config.write_text(config.read_text() + f'notify = "{receiver.url}"\n')
    first = place.call("run")
    assert "this user account has not approved" in first.err
    assert receiver.notices == []
    assert place.call("db", "trust", "--actor", "agent:x").code == 6
    assert place.call("db", "trust", "--actor", "user:ada").code == 0
    place.call("run")
    assert "end" in [notice["kind"] for notice in receiver.notices]


@pytest.mark.parametrize(
    "receiver",
    [
        "ftp://host/path",
        "http://",
        "https:///path",
        "http://host:port/",
        "http://host/a b",
        "'open",
    ],
)
def test_invalid_receiver_is_refused_immediately(place: Place, receiver: str) -> None:
    """The run refuses an invalid address as a usage error and records no event."""
    before = place.version()
    answer = place.json("run", "--notify", receiver)
    assert (answer.code, answer.error["code"]) == (2, "invalid_option"), answer
    assert place.version() == before


@pytest.mark.long
@pytest.mark.slow
def test_notice_does_not_follow_redirects(place: Place, receiver: Receiver) -> None:
    """Following a redirect would send the notice to an address the user did not name."""
    receiver.leads_to = f"{receiver.url}elsewhere"
    answer = place.call("run", "--notify", receiver.url)
    assert answer.code == 6
    assert receiver.notices == []
    assert "302" in answer.err
