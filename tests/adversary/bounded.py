"""Commands in this process that may take so much memory and time, and no more."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from tests.cli.support import Answer, call

#: Bytes that a command may take beside what this process has; seconds, far more than any needs.
MEMORY, SECONDS = 768 << 20, 60


class TooLong(BaseException):
    """A command did not come back; no handler of errors holds this."""


def sound(*words: str) -> Answer:
    """Call a command: it comes back, says something of the contract, and it is no fault of ours."""
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
