"""Commands forked from a warm process, so that a call waits for no imports.

Each command has a folder and streams of its own, and its exit code. It opens the log anew and can
be ended without harm to others, as a command that was typed can. The warm process is forked before
anything else runs in this one: it has one thread, which makes a fork of it safe. Processes that are
ready wait for a command on one socket; who takes one is replaced at once. A reader carries out one
read after the other, as what a fork touches first is copied first, which takes longer than to read.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn, Self

#: Processes that wait for a command.
READY = 2
#: Files that are passed with a command: its request, its output, its errors, its news.
_PASSED = 4
#: A command tells its process id as it begins, and as it ends its exit code and if there is more
#: that its process would carry out.
_BEGUN = struct.Struct("=i")
_ENDED = struct.Struct("=i?")
_TOLD = struct.Struct("=ii?")
#: Reads of one reader, and the kB that it may have grown by: whatever they leave ends with it.
_MOST_READS = 1000
_MOST_GROWN = 64 << 10

Run = Callable[[list[str]], int]


class CommandEnd(NamedTuple):
    """How a command ended: its exit code, -1 where it was killed, and what it printed."""

    code: int
    out: str
    err: str


class Running:
    """A command under way.

    ``news`` is a file descriptor that can be read when there is something to `hear`. ``stays``: it
    has ended, and its process waits for another.
    """

    def __init__(self, request: bytes, to: socket.socket) -> None:
        self._out, self._err = _file(b""), _file(b"")
        self.news, telling = os.pipe()
        self._heard = b""
        self.stays = False
        asked = _file(request)
        try:
            socket.send_fds(to, [b"?"], [asked, self._out, self._err, telling])
        finally:
            os.close(asked)
            os.close(telling)

    def hear(self) -> CommandEnd | None:
        """Wait for news, and return how the command ended; None if it has only begun."""
        told = os.read(self.news, _TOLD.size)
        self._heard += told
        is_whole = len(self._heard) == _TOLD.size
        if told and not is_whole:
            return None
        _, code, self.stays = _TOLD.unpack(self._heard) if is_whole else (0, -1, False)
        return CommandEnd(code, _text(self._out), _text(self._err))

    def stop(self) -> None:
        """End the command and what it started in its session, where it has begun."""
        if self._heard:
            with suppress(ProcessLookupError):
                os.killpg(_BEGUN.unpack_from(self._heard)[0], signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self.news, self._out, self._err):
            os.close(file)


class Warm:
    """The process that commands are forked from; it ends with this one.

    ``run`` carries out one command line and returns its exit code; ``prepare`` imports what
    commands need.
    """

    def __init__(self, run: Run, prepare: Callable[[], None]) -> None:
        self._own, commands = _pair()
        self._asks, asked = _pair()
        if os.fork() == 0:
            self._asks.close()
            self._own.close()
            _Keeper(run, commands, asked).keep(prepare)
        commands.close()
        asked.close()

    def reader(self) -> socket.socket:
        """Return what a new reader takes its commands from; it ends once that is closed."""
        own, other = _pair()
        with other:
            socket.send_fds(self._asks, [b"?"], [other.fileno()])
        return own

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        environ: Mapping[str, str],
        reader: socket.socket | None = None,
    ) -> Running:
        """Start a command in a folder, with more variables in its environment.

        It has a process of its own, or a ``reader`` that carries out no other meanwhile. It is let
        go of, not ended, when the block is left.
        """
        request = json.dumps([list(arguments), str(folder), dict(environ)]).encode()
        return Running(request, reader or self._own)

    def close(self) -> None:
        """End the warm process; commands under way go on to their end."""
        self._own.close()
        self._asks.close()


def _pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _file(content: bytes) -> int:
    file = os.memfd_create("wfctl", os.MFD_CLOEXEC)
    if content:
        os.write(file, content)
        os.lseek(file, 0, os.SEEK_SET)
    return file


def _text(file: int) -> str:
    size = os.fstat(file).st_size
    return os.pread(file, size, 0).decode(errors="replace")


class _Keeper:
    """Keeps processes that wait for commands, until the one that asks for them is gone."""

    def __init__(self, run: Run, commands: socket.socket, asked: socket.socket) -> None:
        self._run = run
        self._commands = commands
        self._asked = asked
        self._taken, self._taking = os.pipe()

    def keep(self, prepare: Callable[[], None]) -> NoReturn:
        """Fork them as they are needed."""
        code = 1
        try:
            # The client's own end of these would never come while this process holds them.
            _attach(os.open(os.devnull, os.O_RDWR), 0, 1)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            prepare()
            gc.freeze()
            for _ in range(READY):
                self._fork(self._serve)
            while self._served():
                pass
            code = 0
        except Exception:  # noqa: BLE001 - nobody above is there to tell it
            traceback.print_exc()
        finally:
            os._exit(code)

    def _served(self) -> bool:
        """Wait for what is asked; return whether somebody is there to ask for more."""
        asked = self._asked.fileno()
        ready = select.select([self._taken, asked], [], [])[0]
        if self._taken in ready:
            for _ in os.read(self._taken, READY):
                self._fork(self._serve)
        if asked not in ready:
            return True
        message, files, _, _ = socket.recv_fds(self._asked, 1, 1)
        for file in files:
            self._fork(partial(self._read_on, file))
            os.close(file)
        return bool(message)

    def _fork(self, serve: Callable[[], object]) -> None:
        if os.fork() == 0:
            try:
                os.close(self._taken)
                self._asked.close()
                serve()
            finally:
                os._exit(1)

    def _serve(self) -> NoReturn:
        files = _awaited(self._commands)
        os.write(self._taking, b".")
        _begin_session()
        _carry_out(self._run, files, lambda: False)
        os._exit(0)

    def _read_on(self, file: int) -> NoReturn:
        """Carry out reads, each in the environment that the first one found."""
        os.close(self._taking)
        self._commands.close()
        commands = socket.socket(fileno=file)
        _begin_session()
        known, mask = dict(os.environ), os.umask(0o077)
        os.umask(mask)
        size, left = _size(), _MOST_READS

        def stays() -> bool:
            return left > 0 and _size() - size < _MOST_GROWN

        while left:
            files = _awaited(commands)
            left -= 1
            _carry_out(self._run, files, stays)
            os.environ.clear()
            os.environ.update(known)
            os.umask(mask)
            os.chdir("/")  # a folder that somebody is in cannot be unmounted
            if not stays():
                break
        os._exit(0)


def _begin_session() -> None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _size() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _awaited(commands: socket.socket) -> list[int]:
    message, files, _, _ = socket.recv_fds(commands, 1, _PASSED)
    if not message:
        os._exit(0)
    return files


def _carry_out(run: Run, files: list[int], stays: Callable[[], bool]) -> None:
    request, out, err, end = files
    os.set_inheritable(end, False)
    os.write(end, _BEGUN.pack(os.getpid()))
    arguments, folder, environ = json.loads(_text(request))
    os.close(request)
    os.environ.update(environ)
    _attach(out, 1)
    _attach(err, 2)
    code = _printed(run, arguments, folder)
    os.write(end, _ENDED.pack(code, stays()))
    os.close(end)


def _printed(run: Run, arguments: list[str], folder: str) -> int:
    with (
        open(0, encoding="utf-8", closefd=False) as sys.stdin,
        open(1, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as sys.stdout,
        open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False) as sys.stderr,
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
