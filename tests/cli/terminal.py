"""Call wfctl at a pseudo-terminal, and type answers to its questions."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.support import HERE

QUESTION = "Approve? [y/n: not now] "


def answered(answer: str, *line: str) -> tuple[int, str]:
    """Call a command, type the answer to its question, and return the exit code and output."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["PYTHONPATH"] = str(HERE)
        os.execv(sys.executable, [sys.executable, "-m", "cli.main", *line])
    return _typed(child, terminal, answer)


def answered_as(login: int, environ: Mapping[str, str], answer: str, *line: str) -> tuple[int, str]:
    """Call a command as another user, who need not be able to read this program."""
    child, terminal = pty.fork()
    if child == 0:
        from cli import main
        from tests.forked import warm_up

        warm_up()
        os.environ.update(environ)
        os.setgroups([])
        os.setgid(login)
        os.setuid(login)
        sys.argv = ["wfctl", *line]
        try:
            main.main()
        except SystemExit as end:
            os._exit(int(end.code or 0))
        finally:
            os._exit(1)
    return _typed(child, terminal, answer)


def _typed(child: int, terminal: int, answer: str) -> tuple[int, str]:
    shown = _until(terminal, QUESTION)
    if shown.endswith(QUESTION):
        os.write(terminal, answer.encode())
        shown += _until(terminal, None)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.replace("\r\n", "\n")


def typed(*line: str) -> None:
    """Call a command at a terminal, and check that it succeeds without a question."""
    code, shown = answered("", *line)
    assert code == 0, shown


@dataclass(frozen=True, slots=True)
class Keys:
    """The keyboard and screen of a program at a pseudo-terminal."""

    terminal: int

    def type(self, keys: str, *, until: str) -> None:
        """Press keys, and wait until the screen shows the given text."""
        os.write(self.terminal, keys.encode())
        shown = _until(self.terminal, until, anywhere=True)
        assert until in shown, shown


@contextmanager
def at_a_terminal(*words: str, cwd: Path, environ: dict[str, str]) -> Iterator[Keys]:
    """Start a program at a pseudo-terminal, and kill it at the end of the context."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(cwd)
        os.execvpe(words[0], words, environ)
    try:
        yield Keys(terminal)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def _until(terminal: int, end: str | None, *, anywhere: bool = False) -> str:
    """Read until the output ends with a text, contains the text, or is closed."""
    shown, deadline = "", time.monotonic() + 60
    while end is None or not (end in shown if anywhere else shown.endswith(end)):
        assert time.monotonic() < deadline, shown
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            content = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not content:
            break
        shown += content.decode(errors="replace")
    return shown


def agreed_to(root: Path, *words: str) -> str:
    """Call a command, answer `y` to its question, and return the output."""
    code, shown = answered("y\n", "--root", str(root), *words)
    assert code == 0, shown
    return shown
