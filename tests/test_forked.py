"""A command that is forked from a warm process is what one with a start of its own would be."""

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
    """Run a command forked, and with a start of its own."""
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
def test_it_says_and_returns_the_same(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Well or badly, on each stream."""
    one, other = both(tmp_path, *arguments)
    assert one == other


@pytest.mark.slow
def test_it_reads_and_writes_where_it_is(tmp_path: Path) -> None:
    """Its folder, its input, its environment and its mask for new files are its own."""
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
def test_several_at_once_are_told_apart(tmp_path: Path) -> None:
    """Each gets its own answer, from whichever thread it is asked."""
    words = [f"nonsense-{number}" for number in range(8)]

    def said(word: str) -> str:
        return forked.run([word], cwd=tmp_path, environ=dict(os.environ), timeout=60).stderr

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(said, words))
    assert [word for word, answer in zip(words, answers, strict=True) if word not in answer] == []


@pytest.mark.slow
def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """And the next is served."""
    write_plan(tmp_path)

    def run(*arguments: str, timeout: float = 60) -> int:
        environ = dict(os.environ)
        return forked.run(arguments, cwd=tmp_path, environ=environ, timeout=timeout).returncode

    assert run("init", "plan.json") == 0
    with pytest.raises(subprocess.TimeoutExpired):
        run("events", "--follow", timeout=0.05)
    assert run("status") == 0
