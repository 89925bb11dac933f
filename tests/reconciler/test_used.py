"""wfctl records CPU time and memory of jobs and tasks, as their shells report them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from projections.words.text import compute_seconds, describe_used_resources, format_byte_count
from reconciler.records.resource_use import combine_resource_use, parse_resource_use
from reconciler.submission.job_guard import USED
from tests.cli.support import Place, write_plan

#: A script that uses 200 MB of memory and a second of CPU time, and exits with a code.
_WORK = (
    "import os, sys, time; taken = bytearray(200 << 20); began = time.process_time()\n"
    "while time.process_time() - began < 1.1: pass\n"
    "open('out', 'w').write('done'); sys.exit(int(os.environ.get('WFCTL_PARAM_code', 0)))"
)


def begun(folder: Path, *, is_sweep: bool, code: int) -> Place:
    """Create a workflow of a stage or a sweep whose command exits with this code."""
    (folder / "work.py").write_text(_WORK)
    place = Place(folder / "root")
    place.path.mkdir()
    parameters: dict[str, Any] = {"command": f"{sys.executable} {folder}/work.py"}
    if is_sweep:
        parameters |= {"map": {"points": [{"code": code}]}, "task_outputs": ["out"]}
    else:
        parameters |= {"code": code}
    output = "stage-1/tasks.csv" if is_sweep else "stage-1/out"
    stage = {"id": "stage-1", "name": "Work", "outputs": [output], "parameters": parameters}
    plan = {"workflow_id": "used", "stages": [stage]}
    place.done("init", str(write_plan(folder, plan)), "--consent", "trust")
    return place


@pytest.mark.few(1)
@pytest.mark.slow
@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("is_sweep", [False, True])
def test_attempts_and_tasks_report_their_resources(
    tmp_path: Path, is_sweep: bool, code: int
) -> None:
    """`show`, `audit` and task filters have the CPU time and memory, also after a failure."""
    place = begun(tmp_path, is_sweep=is_sweep, code=code)
    place.call("run")
    (attempt,) = place.done("show", "stage-1")["attempts"]
    assert 1.1 <= attempt["resources"]["cpu_seconds"] < 20
    assert 200 << 20 < attempt["resources"]["peak_memory_bytes"] < 400 << 20
    assert "MB of memory" in place.call("show", "stage-1").out
    (told,) = place.done("audit", "attempts")
    assert told["cpu_seconds"] == attempt["resources"]["cpu_seconds"]
    (session,) = place.done("audit", "costs")
    assert session["peak_memory_bytes"] == attempt["resources"]["peak_memory_bytes"]
    if is_sweep:
        large = ("--where", "memory>150M", "--where", "cpu_seconds>1")
        assert place.done("tasks", "stage-1", *large)["chosen"] == 1
        assert place.done("tasks", "stage-1", "--where", "memory>1G")["chosen"] == 0
    assert place.call("replay", "--check").code == 0


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("cpu_seconds=1.5 peak_memory_bytes=4096", {"cpu_seconds": 1.5, "peak_memory_bytes": 4096}),
        ("cpu_seconds=1m2.250s+0m0.500s", {"cpu_seconds": 62.75}),
        ("cpu_seconds=0m1,500s+0m0,000s", {"cpu_seconds": 1.5}),
        ("cpu_seconds=+", {}),
        ("cpu_seconds=nan colour=3", {}),
        ("", {}),
    ],
)
def test_resource_line_is_parsed(line: str, found: dict[str, float]) -> None:
    """wfctl reads lines of Python and of bash in any locale, and ignores invalid numbers."""
    assert parse_resource_use(line) == found


def test_resources_of_several_jobs_are_combined() -> None:
    """The CPU times of the jobs are added, and the largest memory is taken."""
    every = [{"cpu_seconds": 1.5, "peak_memory_bytes": 10.0}, {"cpu_seconds": 2.0}]
    assert combine_resource_use(every) == {"cpu_seconds": 3.5, "peak_memory_bytes": 10.0}
    assert describe_used_resources({"cpu_seconds": 8000, "peak_memory_bytes": 3 << 30}) == (
        "2.2 h of processors, at most 3 GB of memory"
    )
    assert [format_byte_count(n) for n in (0, 1023, 1024, 5 << 40)] == [
        "0 B",
        "1023 B",
        "1 kB",
        "5 TB",
    ]


@pytest.mark.parametrize("has_python", [True, False])
def test_shell_keeps_the_exit_code_of_its_command(tmp_path: Path, has_python: bool) -> None:
    """The command's exit code is kept; without Python, bash reports only the CPU time."""
    tools, script = tmp_path / "bin", USED.read_text()
    tools.mkdir()
    for tool in ("mktemp", "rm"):
        (tools / tool).symlink_to(str(shutil.which(tool)))
    if has_python:
        (tools / "python3").symlink_to(sys.executable)
    script = script.replace("/usr/bin/python3 ", "")
    # The measuring function must also work under the shell options that a user may set.
    line = f'set -euo pipefail; {script}\n(wfctl_used "{tmp_path}/used" 7 "")'
    done = subprocess.run(
        [str(shutil.which("bash")), "-c", line], env={"PATH": str(tools)}, check=False
    )
    assert done.returncode == 7
    assert len(parse_resource_use((tmp_path / "used").read_text())) == (3 if has_python else 1)


@pytest.mark.parametrize(
    ("end", "span"),
    [("12:00:02", 2.0), ("11:59:59.9984", 0.0), ("2026-03-30T12:00:00Z", None), (None, None)],
)
def test_elapsed_time_is_never_negative(end: str | None, span: float | None) -> None:
    """If the end is slightly before the start, the time is 0; if far before, unknown."""
    told = end if end is None or "T" in end else f"2026-03-31T{end}Z"
    assert compute_seconds("2026-03-31T12:00:00Z", told) == span
