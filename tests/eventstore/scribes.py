"""Fork many writers that a test kills one after another, which saves import time.

`python -m tests.eventstore.scribes DATABASE JOURNAL` reads a file path on each line, starts a
writer that writes its acknowledgements to that file, and prints its process id.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.eventstore.scribe import write
from tests.eventstore.support import Log


class Scribe(NamedTuple):
    """A running writer, and the file with its acknowledgements."""

    pid: int
    said: Path

    def await_word(self) -> None:
        """Wait until the first append was acknowledged."""
        _until(lambda: self.said.stat().st_size > 0)

    def kill(self) -> bytes:
        """Kill the writer, and return the acknowledgements that it had written."""
        os.kill(self.pid, signal.SIGKILL)
        _until(lambda: not Path(f"/proc/{self.pid}").exists())
        return self.said.read_bytes()


class Scribes:
    """Starts writers of one log."""

    def __init__(self, parent: subprocess.Popen[bytes], folder: Path) -> None:
        self._parent = parent
        self._folder = folder
        self._number = 0

    def start(self) -> Scribe:
        """Start another writer."""
        self._number += 1
        said = self._folder / f"said-{self._number}"
        said.touch()
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(f"{said}\n".encode())
        self._parent.stdin.flush()
        return Scribe(int(self._parent.stdout.readline()), said)


@contextmanager
def scribes(log: Log, folder: Path) -> Iterator[Scribes]:
    """Yield an object that starts writers of a log, with their files in the folder."""
    command = [sys.executable, "-m", "tests.eventstore.scribes", *log]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        yield Scribes(parent, folder)


def _until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "what was waited for never came"
        time.sleep(0.001)


def main(address: str, journal: str) -> None:
    """Fork a writer for each input line."""
    # No process waits for the children, so the kernel must remove them when they end.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for number, line in enumerate(sys.stdin):
        child = os.fork()
        if child == 0:
            output = os.open(line.rstrip("\n"), os.O_WRONLY | os.O_APPEND)
            write(address, journal, f"{os.getpid()}.{number}", output)
        print(child, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
