"""Long output on a terminal goes through a pager, as with git."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from cli.output import Output

#: Leave at once where all fits on the screen, keep colours, keep what was shown.
_LESS = {"LESS": "FRX"}


@contextmanager
def paged(output: Output, *, wanted: bool = True) -> Iterator[None]:
    """Let what is printed inside go through ``$PAGER`` (else less) where people read a terminal."""
    command = shlex.split(os.environ.get("PAGER", "less")) if wanted and output.is_text else []
    if not (command and sys.stdout.isatty() and shutil.which(command[0])):
        yield
        return
    output.through_pager = True
    environ = {**_LESS, **os.environ}
    pager = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=environ)
    try:
        with redirect_stdout(pager.stdin):
            yield
    except BrokenPipeError:
        pass  # a person who leaves the pager has seen enough
    finally:
        pager.communicate()
