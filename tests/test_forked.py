"""A command forked from a warm process behaves like one that is started normally."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import forked
from tests.cli.support import HERE, write_plan


def both(cwd: Path, *arguments: str, stdin: str = "", **environ: str) -> list[forked.Ended]:
    """Run the command as a fork and as a normal process, and return both results."""
    own = {**os.environ, "PYTHONPATH": str(HERE), **environ}
    line = [sys.executable, "-m", "cli.main", *arguments]
    done = subprocess.run(
        line, cwd=cwd, env=own, input=stdin, capture_output=True, text=True, check=False
    )
    started = forked.Ended(done.returncode, done.stdout, done.stderr)
    return [forked.run(arguments, cwd=cwd, environ=own, stdin=stdin, timeout=60), started]


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("--version",), ("--help",), ("nonsense",), ("status",), ("init", "--nonsense")]
)
def test_forked_command_prints_and_returns_the_same(
    tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """A forked command has the same exit code, stdout and stderr as a normal process."""
    one, other = both(tmp_path, *arguments)
    assert one == other


@pytest.mark.slow
def test_forked_command_has_its_own_environment(tmp_path: Path) -> None:
    """The forked command gets the caller's folder, stdin, environment and file mode mask."""
    plan = write_plan(tmp_path).read_text()
    mask = os.umask(0o027)
    try:
        environ = {**os.environ, "WFCTL_ACTOR": "agent:helper"}
        done = forked.run(["init", "-"], cwd=tmp_path, environ=environ, stdin=plan, timeout=60)
    finally:
        os.umask(mask)
    assert done.returncode == 0, done
    assert (tmp_path / "workflow-state.json").stat().st_mode & 0o777 == 0o640
    listed = forked.run(["events"], cwd=tmp_path, environ=environ, timeout=60)
    assert "agent:helper" in listed.stdout


@pytest.mark.slow
def test_parallel_forked_commands_get_their_own_answers(tmp_path: Path) -> None:
    """Commands that several threads run at the same time each return their own output."""
    words = [f"nonsense-{number}" for number in range(8)]

    def said(word: str) -> str:
        return forked.run([word], cwd=tmp_path, environ=dict(os.environ), timeout=60).stderr

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(said, words))
    assert [word for word, answer in zip(words, answers, strict=True) if word not in answer] == []


@pytest.mark.slow
def test_slow_forked_command_is_killed(tmp_path: Path) -> None:
    """After the timeout of one command, the warm process still runs the next command."""
    write_plan(tmp_path)

    def run(*arguments: str, timeout: float = 60) -> int:
        environ = dict(os.environ)
        return forked.run(arguments, cwd=tmp_path, environ=environ, timeout=timeout).returncode

    assert run("init", "plan.json") == 0
    with pytest.raises(subprocess.TimeoutExpired):
        run("events", "--follow", timeout=0.05)
    assert run("status") == 0
