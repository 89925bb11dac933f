"""Agents are killed one after another. Each next agent continues from the brief (summary)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.support import HERE, Place, write_plan
from tests.face.worker import MACHINE, PLAN, TASKS
from tests.rounds import rounds

pytestmark = pytest.mark.slow

#: The number of agents that are killed in one round, and the victims of these kills in turn.
KILLED, WAYS = 10, ("client", "server", "both", "memory")


@pytest.fixture
def root(tmp_path: Path) -> Place:
    """Return a workflow of two jobs that write to a file, and a machine of three tasks."""
    plan = {**PLAN, "stages": [dict(stage) for stage in PLAN["stages"]]}
    for stage in plan["stages"]:
        stage["parameters"] = {**stage["parameters"], "ledger": str(tmp_path / "ledger")}
    folder = tmp_path / "root"
    folder.mkdir()
    place = Place(folder)
    assert place.call("init", str(write_plan(folder, plan)), "--consent", "trust").code == 0
    assert place.call("machine", "init", MACHINE, "--type", "feature").code == 0
    for task in TASKS:
        place.call("machine", "task", MACHINE, task, "--title", task, "--status", "pending")
    return place


def started(root: Place, calls: int = -1) -> subprocess.Popen[bytes]:
    """Start an agent in its own session; after the given number of calls it exits."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.face.worker", str(root.path), str(calls)],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        cwd=HERE,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def server_of(worker: int) -> list[int]:
    """Return the servers that an agent started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            pid, rest = path.read_text().split(" ", 1)
            if int(rest.rpartition(")")[2].split()[1]) == worker:
                found.append(int(pid))
    return found


def killed(root: Place, way: str, chance: random.Random) -> None:
    """Let an agent work for a while; then kill the agent, its server or both, or let it exit."""
    one = started(root, chance.randrange(2, 16) if way == "memory" else -1)
    try:
        if way == "memory":
            one.wait(timeout=60)
            return
        with suppress(subprocess.TimeoutExpired):
            one.wait(timeout=chance.uniform(0.5, 5))
        if way == "client":
            one.kill()
        for server in server_of(one.pid) if way == "server" else []:
            os.kill(server, signal.SIGKILL)
        time.sleep(0.1)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(one.pid, signal.SIGKILL)
        one.wait()


def to_the_end(root: Place) -> None:
    """Let agents work until one reports that all is done, and reject proposals in between."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for amendment in root.done("amend", "list", "--state", "proposed"):
            root.call("amend", "reject", amendment["id"])
        one = started(root)
        try:
            if one.wait(timeout=60) == 0:
                return
        except subprocess.TimeoutExpired:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()
    raise AssertionError(root.call("status").out)


@pytest.mark.parametrize("seed", rounds(range(20), 1))
def test_next_agent_continues_after_a_kill(root: Place, tmp_path: Path, seed: int) -> None:
    """No job runs twice, no task starts or ends twice, and no question is asked twice."""
    chance = random.Random(seed)
    for number in range(KILLED):
        killed(root, WAYS[number % len(WAYS)], chance)
        if number == KILLED // 2:
            for amendment in root.done("amend", "list", "--state", "proposed"):
                root.call("amend", "reject", amendment["id"])
    to_the_end(root)
    assert (tmp_path / "ledger").read_text().split() == ["stage-1", "stage-2"]
    events = root.done("events", "--machine", MACHINE, "--limit", "1000")
    changes = Counter(
        (event["data"]["task"], event["data"]["changes"].get("status"))
        for event in events
        if event["type"] == "machine.task_changed"
    )
    assert changes == {
        (task, status): 1 for task in TASKS for status in ("pending", "in_progress", "complete")
    }
    assert len(root.done("amend", "list")) == 1
    assert root.call("fsck").code == 0
    assert root.call("replay", "--check").code == 0
