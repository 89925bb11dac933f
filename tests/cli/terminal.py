"""Calling wfctl at a terminal of its own, and typing the answer to its question."""

from __future__ import annotations

import os
import pty
import select
import sys
import time

from tests.cli.support import HERE

QUESTION = "Approve? [y/n: not now] "


def answered(answer: str, *line: str) -> tuple[int, str]:
    """Call a command, type the answer once the question stands there; return exit code and text."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["PYTHONPATH"] = str(HERE)
        os.execv(sys.executable, [sys.executable, "-m", "cli.main", *line])
    shown = _until(terminal, QUESTION)
    if shown.endswith(QUESTION):
        os.write(terminal, answer.encode())
        shown += _until(terminal, None)
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.replace("\r\n", "\n")


def _until(terminal: int, end: str | None) -> str:
    """Read until a text stands at the end, or until nobody writes any more."""
    shown, deadline = "", time.monotonic() + 60
    while end is None or not shown.endswith(end):
        assert time.monotonic() < deadline, shown
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            content = os.read(terminal, 4096)
        except OSError:  # the other side is closed
            break
        if not content:
            break
        shown += content.decode(errors="replace")
    return shown
