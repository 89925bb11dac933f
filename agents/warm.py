"""Commands forked from a warm process, so that a call waits for no imports.

Each command has a process, a folder and streams of its own, and its exit code. It opens the log
anew and can be ended without harm to others, as a command that was typed can. The warm process is
forked before anything else runs in this one: it has one thread, which makes a fork of it safe.
Processes that are ready wait for a command on one socket; who takes one is replaced at once.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

#: Processes that wait for a command.
READY = 2
#: Files that are passed with a command: its request, its output, its errors, its news.
_PASSED = 4
#: A command tells its process id as it begins, and its exit code as it ends.
_NUMBER = struct.Struct("=i")
_NUMBERS = struct.Struct("=ii")
_WHOLE = _NUMBERS.size

Run = Callable[[list[str]], int]


class Ended(NamedTuple):
    """How a command ended: its exit code, -1 where it was killed, and what it printed."""

    code: int
    out: str
    err: str


class Running:
    """A command under way.

    ``news`` is a file descriptor that can be read when there is something to `hear`.
    """

    def __init__(self, request: bytes, to: socket.socket) -> None:
        self._out, self._err = _file(b""), _file(b"")
        self.news, telling = os.pipe()
        self._heard = b""
        asked = _file(request)
        try:
            socket.send_fds(to, [b"?"], [asked, self._out, self._err, telling])
        finally:
            os.close(asked)
            os.close(telling)

    def hear(self) -> Ended | None:
        """Wait for news, and return how the command ended; None where it has only begun."""
        told = os.read(self.news, _WHOLE)
        self._heard += told
        if told and len(self._heard) < _WHOLE:
            return None
        code = _NUMBERS.unpack(self._heard)[1] if len(self._heard) == _WHOLE else -1
        return Ended(code, _text(self._out), _text(self._err))

    def stop(self) -> None:
        """End the command and what it started in its session, where it has begun."""
        if self._heard:
            with suppress(ProcessLookupError):
                os.killpg(_NUMBER.unpack_from(self._heard)[0], signal.SIGTERM)

    def close(self) -> None:
        """Let go of its files."""
        for file in (self.news, self._out, self._err):
            os.close(file)


class Warm:
    """The process that commands are forked from; it ends with this one.

    ``run`` carries out one command line and returns its exit code; ``prepare`` imports what
    commands need.
    """

    def __init__(self, run: Run, prepare: Callable[[], None]) -> None:
        self._own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ends, self._life = os.pipe()
        if os.fork() == 0:
            os.close(self._life)
            self._own.close()
            _keep_ready(run, prepare, other, ends)
        other.close()
        os.close(ends)

    @contextmanager
    def start(
        self, arguments: Sequence[str], folder: Path, environ: Mapping[str, str]
    ) -> Iterator[Running]:
        """Start a command in a folder, with more variables in its environment.

        It is let go of, not ended, when the block is left.
        """
        request = json.dumps([list(arguments), str(folder), dict(environ)]).encode()
        running = Running(request, self._own)
        try:
            yield running
        finally:
            running.close()

    def close(self) -> None:
        """End the warm process; commands under way go on to their end."""
        self._own.close()
        os.close(self._life)


def _file(content: bytes) -> int:
    file = os.memfd_create("wfctl", os.MFD_CLOEXEC)
    if content:
        os.write(file, content)
        os.lseek(file, 0, os.SEEK_SET)
    return file


def _text(file: int) -> str:
    size = os.fstat(file).st_size
    return os.pread(file, size, 0).decode(errors="replace")


def _keep_ready(
    run: Run, prepare: Callable[[], None], commands: socket.socket, life: int
) -> NoReturn:
    """Keep processes that wait for a command, until the one that asks for them is gone."""
    code = 1
    try:
        # The client's own end of these would never come while this process holds them.
        _attach(os.open(os.devnull, os.O_RDWR), 0, 1)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        prepare()
        gc.freeze()
        taken, taking = os.pipe()
        for _ in range(READY):
            _fork(run, commands, taking, (taken, life))
        while life not in (ready := select.select([taken, life], [], [])[0]):
            for _ in os.read(taken, len(ready) * READY):
                _fork(run, commands, taking, (taken, life))
        code = 0
    except Exception:  # noqa: BLE001 - nobody above is there to tell it
        traceback.print_exc()
    finally:
        os._exit(code)


def _fork(run: Run, commands: socket.socket, taking: int, others: tuple[int, ...]) -> None:
    if os.fork():
        return
    try:
        for file in others:
            os.close(file)
        _serve(run, commands, taking)
    finally:
        os._exit(1)


def _serve(run: Run, commands: socket.socket, taking: int) -> None:
    """Wait for a command, carry it out, and leave."""
    message, files, _, _ = socket.recv_fds(commands, 1, _PASSED)
    if not message:
        os._exit(0)
    os.write(taking, b".")
    request, out, err, end = files
    os.set_inheritable(end, False)
    os.setsid()
    os.write(end, _NUMBER.pack(os.getpid()))
    arguments, folder, environ = json.loads(_text(request))
    os.environ.update(environ)
    _attach(out, 1)
    _attach(err, 2)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.write(end, _NUMBER.pack(_carried_out(run, arguments, folder)))
    os._exit(0)


def _carried_out(run: Run, arguments: list[str], folder: str) -> int:
    with (
        open(0, encoding="utf-8") as sys.stdin,
        open(1, "w", encoding="utf-8", errors="backslashreplace") as sys.stdout,
        open(2, "w", encoding="utf-8", errors="backslashreplace") as sys.stderr,
    ):
        os.chdir(folder)
        code = run(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        return code


def _attach(file: int, *places: int) -> None:
    for place in places:
        os.dup2(file, place)
    os.close(file)
