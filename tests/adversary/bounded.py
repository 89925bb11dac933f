"""Run commands in this process with a limit on their memory and time."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.cli.support import Answer, call

#: Maximum additional memory and run time of one command, far above what any command needs.
MEMORY, SECONDS = 768 << 20, 60


class TooLong(BaseException):
    """A command exceeded its time limit. No error handler of wfctl catches this exception."""


def sound(*words: str) -> Answer:
    """Call a command, and check that it returns a documented exit code and no internal error."""
    with _bounded():
        answer = call(*words)
    assert answer.code in range(8), (words, answer)
    assert '"internal"' not in answer.out, (words, answer)
    assert answer.code == 0 or answer.out or answer.err, words
    return answer


@contextmanager
def _bounded() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, _end)
    resource.setrlimit(resource.RLIMIT_AS, (_size() + MEMORY, before[1]))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)


def _size() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _end(signum: int, frame: FrameType | None) -> None:
    raise TooLong(f"expected an end within {SECONDS} s")
