"""Measure the time of each MCP tool call of an agent: `python -m benchmarks.tool_calls`.

Real servers answer one call at a time on their stdin and stdout. The time lasts from the line of
the client to the line of the server. ``--beside FOLDER`` names another checkout of wfctl, whose
server answers the same calls in turn in the same folder. ``--client sdk`` includes the time of the
Python client of the MCP SDK.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
STAGES = 12
#: Number of calls of each kind before the measurement, so that processes have started and files are
#: cached.
WARMING = 5
PLAN = {
    "workflow_id": "bench",
    "purpose": "See what a call takes.",
    "stages": [
        {
            "id": f"stage-{n}",
            "name": f"Point {n}",
            "outputs": [f"stage-{n}/out.txt"],
            "success_criteria": "out.txt says its number",
            "parameters": {"command": f"echo {n} > out.txt", "temperature": 300 + n},
            "depends_on": [f"stage-{n - 1}"] if n > 1 else [],
        }
        for n in range(1, STAGES + 1)
    ]
    + [
        {
            "id": f"stage-{STAGES + 1}",
            "name": "Sweep",
            "parameters": {"command": "true", "map": {"grid": {"x": [1, 2, 3, 4]}}},
            "outputs": [f"stage-{STAGES + 1}/tasks.csv"],
        }
    ],
}
SWEEP = f"stage-{STAGES + 1}"
READS: dict[str, tuple[str, dict[str, Any]]] = {
    "brief": ("brief", {}),
    "status": ("get", {}),
    "show": ("get", {"stage": "stage-1"}),
    "why": ("history", {"action": "why", "stage": "stage-3"}),
    "log": ("history", {"action": "log"}),
    "tasks": ("job", {"action": "tasks", "stage": SWEEP}),
    "list": ("list", {}),
    "events": ("history", {"action": "events"}),
    "describe schema": ("describe", {"action": "schema", "type": "stage.completed"}),
    "check results": ("check", {"action": "results"}),
}
WRITES: dict[str, tuple[str, dict[str, Any]]] = {
    "record": ("record", {"note": "hot"}),
    "record on a stage": ("record", {"note": "hot", "stage": "stage-1"}),
}
Times = dict[str, list[float]]


def main() -> None:
    """Measure all tool calls on a new workflow, and print a table."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.disk) as made:
        folder = Path(made)
        _workflow(folder)
        places = {"here": HERE} | ({"beside": options.beside} if options.beside else {})
        measured = _through_sdk if options.client == "sdk" else _through_pipes
        print(_table(measured(folder, places, options.rounds)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tool_calls")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--beside", type=Path, help="another checkout of wfctl")
    parser.add_argument("--client", choices=("pipe", "sdk"), default="pipe")
    parser.add_argument("--disk", type=Path, default=Path.cwd(), help="where the workflow is made")
    return parser.parse_args()


def _workflow(folder: Path) -> None:
    """Create a workflow of several stages, and complete the first three."""
    (folder / "plan.json").write_text(json.dumps(PLAN))
    _wfctl(folder, "init", "plan.json", "--consent", "trust")
    for number in range(1, 4):
        stage = f"stage-{number}"
        _wfctl(folder, "dispatch", stage)
        _wfctl(folder, "wait", stage, "--timeout", "60")
        _wfctl(folder, "stage", "complete", stage, "--evidence", "it says so")


def _wfctl(folder: Path, *line: str) -> None:
    command = [sys.executable, "-m", "cli.main", *line]
    environ = _environ(HERE) | {"WFCTL_ACTOR": "user:bench"}
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{line}: {done.stdout}{done.stderr}")


def _environ(place: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(place)}


def _turns(rounds: int, names: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Return all calls in order: the server, the tool call, and whether its time counts.

    The order of the servers is reversed in every second round. The first calls are a warm-up.
    """
    found = []
    for number in range(-WARMING, rounds):
        order = names if number % 2 else names[::-1]
        found += [(name, call, number >= 0) for call in READS | WRITES for name in order]
    return found


class _Pipe:
    """An MCP server in a child process, with a minimal client on its stdin and stdout."""

    def __init__(self, place: Path, folder: Path, stack: ExitStack) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "cli.main", "mcp", "--actor", "agent:bench"],
            cwd=folder,
            env=_environ(place),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        stack.callback(self._process.wait, 20)
        stack.callback(self._process.stdin.close)  # type: ignore[union-attr]
        self._number = 0
        named = {"name": "bench", "version": "1"}
        first = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": named}
        self.ask("initialize", first)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        line = self._process.stdout.readline()  # type: ignore[union-attr]
        return json.loads(line)["result"]

    def _send(self, message: Mapping[str, Any]) -> None:
        stdin = self._process.stdin
        stdin.write(json.dumps(message).encode() + b"\n")  # type: ignore[union-attr]
        stdin.flush()  # type: ignore[union-attr]


def _through_pipes(folder: Path, places: Mapping[str, Path], rounds: int) -> dict[str, Times]:
    times: dict[str, Times] = {name: {call: [] for call in READS | WRITES} for name in places}
    with ExitStack() as stack:
        servers = {name: _Pipe(place, folder, stack) for name, place in places.items()}
        for name, call, counts in _turns(rounds, list(places)):
            tool, arguments = (READS | WRITES)[call]
            begun = time.perf_counter()
            told = servers[name].ask("tools/call", {"name": tool, "arguments": arguments})
            took = time.perf_counter() - begun
            _require(call, told.get("isError"), told)
            if counts:
                times[name][call].append(took)
    return times


def _through_sdk(folder: Path, places: Mapping[str, Path], rounds: int) -> dict[str, Times]:
    return asyncio.run(_called_by_sdk(folder, places, rounds))


async def _called_by_sdk(folder: Path, places: Mapping[str, Path], rounds: int) -> dict[str, Times]:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    times: dict[str, Times] = {name: {call: [] for call in READS | WRITES} for name in places}
    async with AsyncExitStack() as stack:
        clients = {}
        for name, place in places.items():
            started = StdioServerParameters(
                command=sys.executable,
                args=["-m", "cli.main", "mcp", "--actor", "agent:bench"],
                cwd=folder,
                env=_environ(place),
            )
            clients[name] = await stack.enter_async_context(Client(stdio_client(started)))
        for name, call, counts in _turns(rounds, list(places)):
            tool, arguments = (READS | WRITES)[call]
            begun = time.perf_counter()
            told = await clients[name].call_tool(tool, arguments)
            took = time.perf_counter() - begun
            _require(call, told.is_error, told)
            if counts:
                times[name][call].append(took)
    return times


def _require(call: str, is_error: Any, told: Any) -> None:
    if is_error:
        raise RuntimeError(f"{call}: expected an answer, found {told}")


def _table(times: dict[str, Times]) -> str:
    names = list(times)
    shown = [
        *(f"{name}, ms" for name in names),
        "a tenth below",
        *(["is of it"] * (len(names) - 1)),
    ]
    lines = [f"| call | {' | '.join(shown)} |", "|---|" + "---:|" * len(shown)]
    for call in READS | WRITES:
        medians = [statistics.median(times[name][call]) for name in names]
        quick = statistics.quantiles(times[names[0]][call], n=10)[0]
        ratios = [f"{medians[0] / other:.2f} x" for other in medians[1:]]
        figures = [*(f"{one * 1000:.1f}" for one in (*medians, quick)), *ratios]
        lines.append(f"| {call} | {' | '.join(figures)} |")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    main()
