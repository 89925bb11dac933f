"""Twenty agents share one machine (agent protocol) while a program follows its events."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from tests.cli.support import HERE, Place, call
from tests.face.support import ERAS, Agent, Told
from tests.face.test_http import TOKEN, _wait_until_it_listens, served

pytestmark = [pytest.mark.slow, pytest.mark.long]

AGENTS, TASKS = 20, 6
#: Exit codes for conflicts: another version of the machine, or a step that another agent took
#: first.
CONFLICTS = {4, 5}


@pytest.fixture
def root(tmp_path: Path) -> Place:
    """Return a machine (agent protocol) with some tasks."""
    root = ("--root", str(tmp_path), "machine")
    assert call(*root, "init", "m", "--type", "feature").code == 0
    for number in range(TASKS):
        line = ("task", "m", f"t{number}", "--title", "x", "--status", "pending")
        assert call(*root, *line).code == 0
    return Place(tmp_path)


async def _agent(url: str, number: int) -> list[Told]:
    """Let an agent claim pending tasks of a machine, and return the answers to all its calls.

    Each claim states the version of the machine that the agent read last.
    """
    told: list[Told] = []
    era = ERAS[number % len(ERAS)]
    async with (
        httpx.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}, timeout=120) as http,
        Client(streamable_http_client(url, http_client=http), mode=era) as client,
    ):
        one = Agent(client)
        for _ in range(TASKS):
            known = await one.call("brief", machine="m")
            told.append(known)
            free = [
                t for t in known.data["taskProgress"].get("open", []) if t["status"] == "pending"
            ]
            if not free:
                break
            wanted: dict[str, Any] = {"machine": "m", "task": free[number % len(free)]["id"]}
            begun = await one.call(
                "task", **wanted, status="in_progress", expected_version=known.value["version"]
            )
            told.append(begun)
            if not begun.is_error:
                told.append(await one.call("task", **wanted, status="complete"))
    return told


async def _crowd(url: str) -> list[Told]:
    each = await asyncio.gather(*(_agent(url, number) for number in range(AGENTS)))
    return [told for some in each for told in some]


def test_twenty_agents_share_the_tasks_of_one_machine(root: Place) -> None:
    """Each task starts and ends once, and a call only fails because of a conflict."""
    follower = subprocess.Popen(
        [sys.executable, "-m", "cli.main", "events", "--machine", "m", "--follow", "-o", "jsonl"],
        cwd=root.path,
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with served(root.path, "--port", "0") as said:
            found = re.search(r"http://127\.0\.0\.1:(\d+)/mcp", said)
            assert found, said
            _wait_until_it_listens(socket.AF_INET, ("127.0.0.1", int(found[1])))
            told = asyncio.run(_crowd(found[0]))
        events = root.done("events", "--machine", "m", "--limit", "1000")
        assert follower.stdout is not None
        seen = [follower.stdout.readline() for _ in events]
        assert follower.poll() is None
    finally:
        follower.kill()
        _, said = follower.communicate()
    assert said == ""
    assert all(seen)
    errors = Counter(one.error["exit_code"] for one in told if one.is_error)
    assert set(errors) <= CONFLICTS, [one.text for one in told if one.is_error][:3]
    changes = Counter(
        (event["data"]["task"], event["data"]["changes"].get("status"))
        for event in events
        if event["type"] == "machine.task_changed"
    )
    assert set(changes.values()) == {1}
    assert len(changes) == 3 * TASKS
    assert root.call("fsck").code == 0
