"""The commands in the tutorial work as the page shows."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import NamedTuple

import pytest

from tests.cli.terminal import QUESTION
from tests.need import need_programs

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "start" / "tutorial.md"


class Step(NamedTuple):
    """A command in a tutorial page, with its exit code and its output."""

    command: str
    exit_code: int
    printed: str


def steps(page: str) -> list[Step]:
    """Return the commands in the console blocks of a page, in their order."""
    blocks = re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    found = []
    for part in re.split(r"^\$ ", "".join(blocks), flags=re.MULTILINE)[1:]:
        line, _, printed = part.partition("\n")
        command, _, code = line.partition("    # exit ")
        found.append(Step(command, int(code or 0), printed))
    return found


def pattern(printed: str) -> str:
    """Return a regular expression for the output; a line `…` stands for any lines."""
    lines = printed.rstrip("\n").split("\n")
    spelled = [r"(?s:.*)" if line == "…" else re.escape(line).replace("…", ".*") for line in lines]
    return r"\n?".join(spelled)


def environment(home: Path) -> dict[str, str]:
    """Return a user's environment with another home folder and with this wfctl on PATH."""
    tools = home / "bin"
    tools.mkdir(parents=True)
    program = tools / "wfctl"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m cli.main "$@"\n')
    program.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if k in ("LANG", "LC_ALL", "TMPDIR")}
    return {
        **kept,
        "HOME": str(home),
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "TMUX_TMPDIR": str(home),
        "WFCTL_ACTOR": "user:ada",
    }


def script(commands: list[Step]) -> str:
    """Return a script that runs every command and prints separators between their outputs."""
    parts = [f"{step.command}\nprintf '\\n\\036%s\\037' $?\n" for step in commands]
    return "".join(parts)


@contextmanager
def at_a_terminal(*, agrees: bool) -> Iterator[int]:
    """Yield a pseudo-terminal; with `agrees`, it answers y to each question."""
    keyboard, terminal = pty.openpty()
    typing = Thread(target=_agree, args=(keyboard,), daemon=True)
    if agrees:
        typing.start()
    try:
        yield terminal
    finally:
        os.close(terminal)
        if agrees:
            typing.join(10)
        os.close(keyboard)


def _agree(keyboard: int) -> None:
    shown = b""
    while True:
        try:
            shown += os.read(keyboard, 4096)
        except OSError:  # The other side of the terminal is closed.
            return
        if shown.endswith(QUESTION.encode()):
            os.write(keyboard, b"y\n")
            shown = b""


def follow(page: Path, place: Path, home: Path, *, agrees: bool = False) -> None:
    """Run the commands of a page in a folder, and compare their exit codes and output.

    Without ``agrees``, no questions are answered, so a command that asks would wait forever.
    """
    wanted = steps(page.read_text("utf-8"))
    told = home.parent / "story.sh"
    told.write_text(script(wanted))
    with at_a_terminal(agrees=agrees) as terminal:
        done = subprocess.run(
            ["bash", told],
            stdin=terminal,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            cwd=place,
            env=environment(home),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            check=True,
        )
    found = re.findall(r"(.*?)\n\x1e(\d+)\x1f", done.stdout, re.DOTALL)
    assert len(found) == len(wanted)
    for step, (printed, code) in zip(wanted, found, strict=True):
        assert int(code) == step.exit_code, f"{step.command}\n{printed}"
        if step.printed.strip():
            assert re.fullmatch(pattern(step.printed), printed.strip("\n")), (
                f"{step.command}\nexpected:\n{step.printed}\nfound:\n{printed}"
            )


@pytest.mark.slow
@pytest.mark.long
def test_tutorial_commands_work_as_shown(tmp_path: Path) -> None:
    """In the melt example, each command has the exit code and output of the page."""
    need_programs("lmp", "ssh-keygen", "bash")
    place = tmp_path / "melt"
    shutil.copytree(ROOT / "examples/melt-drift", place)
    follow(PAGE, place, tmp_path / "home")
