"""Long output on a terminal goes through a pager, as with git."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from cli.terminal.output import Output
from service.errors import InvalidOption

#: Leave at once where all fits on the screen, keep colours, keep what was shown.
_LESS = {"LESS": "FRX"}


@contextmanager
def paged(output: Output, *, wanted: bool = True) -> Iterator[None]:
    """Let what is printed inside go through ``$PAGER`` (else less) where people read a terminal."""
    command = _pager() if wanted and output.is_text and sys.stdout.isatty() else []
    if not (command and shutil.which(command[0])):
        yield
        return
    output.through_pager = True
    environ = {**_LESS, **os.environ}
    pager = subprocess.Popen(
        command, stdin=subprocess.PIPE, encoding="utf-8", errors="backslashreplace", env=environ
    )
    try:
        with redirect_stdout(pager.stdin):
            yield
    except BrokenPipeError:
        pass  # a person who leaves the pager has seen enough
    finally:
        pager.communicate()


def _pager() -> list[str]:
    """Return the words of ``$PAGER``; raises `InvalidOption`."""
    line = os.environ.get("PAGER", "less")
    try:
        return shlex.split(line)
    except ValueError as error:
        raise InvalidOption(f"expected a command in $PAGER, found {line!r} ({error})") from None
