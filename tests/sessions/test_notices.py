"""Who is named is told of decisions, failures and the end: once each, whatever becomes of it."""

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
    """A real receiver here; ``slow`` is how long it takes, ``refusals`` how often it refuses."""

    def __init__(self, slow: float = 0, refusals: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.slow = slow
        self.refusals = refusals
        self.notices: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        """Take a notice."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.slow)
        if self.server.refusals:
            self.server.refusals -= 1
            self.send_response(500)
        else:
            self.server.notices.append(json.loads(body))
            self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as the base has it
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Start a receiver, and end it."""
    with Receiver() as started:
        thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield started
        started.shutdown()
        thread.join()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Make a workflow of which one stage fails and one waits for a word."""
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
def test_each_is_told_once_over_all_sessions(place: Place, receiver: Receiver) -> None:
    """A failure, a judgement, the end; a proposal that came between two loops; nothing twice."""
    receiver.refusals = 1  # the first notice is given again
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


@pytest.mark.slow
def test_a_program_gets_the_notice_on_its_stdin(place: Place, tmp_path: Path) -> None:
    """No shell reads its line."""
    program = tmp_path / "tell it.sh"
    program.write_text(f"#!/bin/sh\ncat >> {tmp_path}/told; echo >> {tmp_path}/told\n")
    program.chmod(0o755)
    place.call("run", "--notify", f"'{program}' --flag")
    told = [json.loads(line) for line in (tmp_path / "told").read_text().splitlines()]
    assert [notice["kind"] for notice in told] == ["failure", "decision", "end"]


@pytest.mark.slow
def test_a_receiver_that_is_away_or_slow_holds_up_nothing(
    place: Place, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run ends as it would; what was not taken is said."""
    monkeypatch.setattr("reconciler.loop.notices._LAST", 0.3)
    receiver.slow = 1.0
    answer = place.call("run", "--notify", receiver.url)
    assert answer.code == 6
    assert "were not taken in time" in answer.err
    away = place.call("run", "--notify", "/no/such/program")
    assert away.code == 6


@pytest.mark.slow
def test_a_configuration_names_nobody_without_a_person(place: Place, receiver: Receiver) -> None:
    """It may have come with a copy: nobody is told until somebody of this login agreed."""
    config = place.path / ".wfctl" / "config.toml"
    config.write_text(config.read_text() + f'notify = "{receiver.url}"\n')
    first = place.call("run")
    assert "nobody of this login agreed" in first.err
    assert receiver.notices == []
    assert place.call("db", "trust", "--actor", "agent:x").code == 6
    assert place.call("db", "trust", "--actor", "user:ada").code == 0
    place.call("run")
    assert "end" in [notice["kind"] for notice in receiver.notices]
