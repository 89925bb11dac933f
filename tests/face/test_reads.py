"""Reads by long-lived processes give the answers of the command line, without mixing roots."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from extensions.agents.command_lines import line_of
from extensions.agents.tool_answers import answer_of
from extensions.agents.tools import TOOLS
from tests.cli.support import Place, write_plan
from tests.face.support import Agent, agent, drive
from tests.face.test_calls import _processes_of

pytestmark = pytest.mark.slow

#: Calls that read the state at version 6 or earlier. Later events do not change their answers.
FIXED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("get", {"at": "6"}),
    ("get", {"stage": "stage-1", "at": "5"}),
    ("get", {"stage": "stage-2", "at": "6"}),
    ("history", {"action": "log", "at": "6"}),
    ("history", {"action": "why", "stage": "stage-2", "at": "4"}),
    ("describe", {"action": "schema", "type": "stage.failed"}),
    ("describe", {"action": "machine", "type": "oneshot"}),
    ("get", {"stage": "stage-9"}),
)
#: Reads of the current state.
NOW: tuple[tuple[str, dict[str, Any]], ...] = (
    ("brief", {}),
    ("get", {}),
    ("get", {"stage": "stage-1"}),
    ("history", {"action": "why", "stage": "stage-2"}),
    ("history", {"action": "log"}),
    ("job", {"action": "tasks", "stage": "stage-3"}),
    ("list", {}),
    ("check", {"action": "results"}),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of two workflows that differ only in their names."""
    for name in ("one", "two"):
        place = tmp_path / name
        place.mkdir()
        sweep = {"command": "true", "map": {"grid": {"x": [1, 2]}}}
        stages = [
            {"id": "stage-1", "name": f"First of {name}", "parameters": {"command": "true"}},
            {"id": "stage-2", "name": f"Second of {name}", "depends_on": ["stage-1"]},
            {
                "id": "stage-3",
                "name": f"Sweep of {name}",
                "parameters": sweep,
                "outputs": ["stage-3/tasks.csv"],
            },
        ]
        plan = write_plan(place, {"workflow_id": name, "stages": stages})
        root = Place(place)
        assert root.call("init", str(plan), "--consent", "trust").code == 0
        for number in range(4):
            assert root.call("note", f"{number} of {name}").code == 0
    return tmp_path


def _expected(folder: Path, root: str, tool: str, arguments: dict[str, Any]) -> str:
    """Return the output of the command line in the form of the server."""
    line = line_of(TOOLS[tool], arguments)
    done = Place(folder / root).call("--output=json", "--log-level=error", *line)
    return answer_of(done.code, done.out, done.err, writes=False).text


async def _ask(
    one: Agent, found: list[tuple[str, int, str]], root: str, number: int, call: Any
) -> None:
    tool, arguments = call
    found.append((root, number, (await one.call(tool, root=root, **arguments)).text))


async def _all_at_once(
    one: Agent,
    calls: tuple[Any, ...],
    rounds: int,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> list[tuple[str, int, str]]:
    found: list[tuple[str, int, str]] = []
    async with anyio.create_task_group() as group:
        if beside is not None:
            group.start_soon(beside)
        for _ in range(rounds):
            for root in ("one", "two"):
                for number, call in enumerate(calls):
                    group.start_soon(_ask, one, found, root, number, call)
    return found


def _roots_and(calls: tuple[Any, ...]) -> Iterator[tuple[str, int, Any]]:
    return ((root, number, call) for root in ("one", "two") for number, call in enumerate(calls))


@pytest.mark.long
def test_concurrent_reads_match_the_command_line(folder: Path) -> None:
    """During and after writes, the server's answers equal those of the commands."""
    expected = {(r, n): _expected(folder, r, *call) for r, n, call in _roots_and(FIXED)}
    found: list[tuple[str, int, str]] = []
    quiet: list[tuple[str, int, str]] = []

    async def steps(one: Agent) -> None:
        async def write() -> None:
            for number in range(10):
                for root in ("one", "two"):
                    done = await one.call("record", root=root, note=f"{number} beside {root}")
                    assert not done.is_error, done.text

        found.extend(await _all_at_once(one, FIXED, 4, write))
        quiet.extend(await _all_at_once(one, NOW, 4))

    drive(folder, steps)
    assert len(found) == 64
    for root, number, text in found:
        assert text == expected[root, number], (root, FIXED[number])
    now = {(r, n): _expected(folder, r, *call) for r, n, call in _roots_and(NOW)}
    for root, number, text in quiet:
        assert _lasting(text) == _lasting(now[root, number]), (root, NOW[number])


def _lasting(text: str) -> Any:
    """Return an answer without ages, which change with time."""
    value = json.loads(text)

    def without(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: without(one) for key, one in part.items() if "age" not in key.lower()}
        return [without(one) for one in part] if isinstance(part, list) else part

    return without(value)


@pytest.mark.long
def test_read_sees_earlier_acknowledged_writes(folder: Path) -> None:
    """A read after the answer to a write has its version, in each root."""

    async def steps(one: Agent) -> None:
        for number in range(15):
            root = ("one", "two")[number % 2]
            version = (await one.call("record", root=root, note=f"n{number}")).value["version"]
            told = await one.call("get", root=root)
            assert told.value["version"] == version
            assert told.data["workflow"] == root

    drive(folder, steps)


@pytest.mark.long
def test_read_notices_a_replaced_root(folder: Path) -> None:
    """If two roots swap their folders, the running server answers from the new folders."""

    async def steps(one: Agent) -> None:
        for names in (("one", "two"), ("two", "one"), ("one", "two")):
            for root, name in zip(("one", "two"), names, strict=True):
                for _ in range(3):
                    assert (await one.call("get", root=root)).data["workflow"] == name
            (folder / "one").rename(folder / "aside")
            (folder / "two").rename(folder / "one")
            (folder / "aside").rename(folder / "two")

    drive(folder, steps)


def _readers(word: str) -> list[int]:
    """Return the reader processes of a server; each leads its own session."""
    return [pid for pid in _processes_of(word) if _leads(pid)]


def _leads(pid: int) -> bool:
    try:
        # The server also leads a session, but is a child of the test. Process ids are reused, so
        # the server need not have the smallest one.
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return os.getsid(pid) == pid and parent != os.getpid()
    except (ProcessLookupError, FileNotFoundError):  # The process belonged to a single command.
        return False


async def _with_readers(
    folder: Path, steps: Callable[[Agent, Callable[[], list[int]]], Awaitable[None]]
) -> None:
    name, word = "FACE_TEST", f"{os.getpid()}-{time.time_ns()}"
    async with agent(folder / "one", **{name: word}) as one:
        await one.call("get")
        await steps(one, lambda: _readers(f"{name}={word}"))


@pytest.mark.long
def test_killed_reader_is_replaced(folder: Path) -> None:
    """If a reader process is killed during a read, the server still answers the read."""

    async def steps(one: Agent, readers: Callable[[], list[int]]) -> None:
        for _ in range(3):
            killed = readers()
            assert killed
            for pid in killed:
                os.kill(pid, signal.SIGKILL)
            for _ in range(4):
                assert (await one.call("get")).data["workflow"] == "one"
        stopped = readers()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        async with anyio.create_task_group() as group:
            for _ in stopped:
                group.start_soon(one.call, "get")
            await anyio.sleep(0.3)
            for pid in stopped:
                os.kill(pid, signal.SIGKILL)

    asyncio.run(_with_readers(folder, steps))


@pytest.mark.long
def test_hanging_read_does_not_block_other_reads(folder: Path) -> None:
    """While one read hangs, new processes answer other reads."""

    async def steps(one: Agent, readers: Callable[[], list[int]]) -> None:
        stopped = readers()
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            async with anyio.create_task_group() as group:
                for _ in stopped:
                    group.start_soon(one.call, "get")
                await anyio.sleep(0.3)  # Let the hanging reads start before the next read.
                until = anyio.current_time() + 10
                while len(readers()) < 2 * len(stopped):
                    with anyio.fail_after(5):
                        assert (await one.call("get")).data["workflow"] == "one"
                    assert anyio.current_time() < until
                group.cancel_scope.cancel()
            for _ in range(4):
                assert (await one.call("get")).data["workflow"] == "one"
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGKILL)

    asyncio.run(_with_readers(folder, steps))
