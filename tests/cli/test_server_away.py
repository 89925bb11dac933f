"""The run loop while the database server of its log is not available."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import HERE, Place
from tests.cli.test_server import made
from tests.crash.support import ending, until
from tests.server import Server, started

pytestmark = pytest.mark.slow

#: Seconds for which a command other than `run` retries the connection to the server.
OF_A_COMMAND = 30


@pytest.fixture
def own() -> Iterator[Server]:
    """Yield a server that no other test uses."""
    running = started()
    try:
        yield running
    finally:
        running.close()


def loop_of(place: Place, said: Path) -> subprocess.Popen[str]:
    """Start `wfctl run`, and write its stderr to a file."""
    environ = {**os.environ, "PYTHONPATH": str(HERE), "TMUX_TMPDIR": str(place.path)}
    with said.open("w") as file:
        command = [sys.executable, "-m", "cli.main", "--root", str(place.path), "run"]
        return subprocess.Popen(
            command, env=environ, stdout=subprocess.PIPE, stderr=file, text=True
        )


def working(server: Server, folder: Path) -> Place:
    """Create a workflow of two stages. The first stage waits for a file."""
    waiting = f"touch {folder}/began; until [ -e {folder}/go ]; do sleep 0.1; done"
    first = {
        "id": "stage-1",
        "name": "Wait",
        "outputs": ["stage-1/out.txt"],
        "parameters": {"command": f"{waiting}; echo 1 > out.txt"},
    }
    second = {
        "id": "stage-2",
        "name": "Go on",
        "depends_on": ["stage-1"],
        "outputs": ["stage-2/out.txt"],
        "parameters": {"command": "echo 2 > out.txt"},
    }
    return made(folder, server.log(), stages=[first, second])


@pytest.mark.long
def test_run_loop_continues_when_the_server_is_back(own: Server, tmp_path: Path) -> None:
    """The loop waits longer than other commands, and records the job that ended meanwhile."""
    place, said = working(own, tmp_path), tmp_path / "said"
    with ending(loop_of(place, said)) as loop:
        until((tmp_path / "began").exists)
        time.sleep(1)
        own.stop()
        (tmp_path / "go").touch()
        time.sleep(OF_A_COMMAND + 5)
        own.start()
        out, _ = loop.communicate(timeout=120)
    assert loop.returncode == 0, said.read_text()
    assert "completed" in out
    lines = [line for line in said.read_text().splitlines() if "waiting for the log" in line]
    assert 2 <= len(lines) <= 6
    assert "wfctl keeps trying" in lines[0]
    started_ = [e["data"]["stage"] for e in place.done("events", "--type", "attempt.started")]
    assert started_ == ["stage-1", "stage-2"]


@pytest.mark.long
def test_run_loop_that_waits_for_the_server_obeys_sigterm(own: Server, tmp_path: Path) -> None:
    """The first SIGTERM ends `run` with the error that the server does not answer."""
    place, said = working(own, tmp_path), tmp_path / "said"
    with ending(loop_of(place, said)) as loop:
        until((tmp_path / "began").exists)
        own.stop()
        until(lambda: "waiting for the log" in said.read_text())
        loop.send_signal(signal.SIGTERM)
        loop.communicate(timeout=60)
    (tmp_path / "go").touch()
    own.start()
    assert loop.returncode == 1
    assert "the database server does not answer" in said.read_text()
