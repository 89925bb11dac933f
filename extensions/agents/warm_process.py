"""Fork commands from a warm process, so that a tool call does not wait for imports.

The warm process has imported all modules. Each command has its own folder, streams and exit code.
It opens the log again, and can be stopped without harm to other commands. The warm process is
forked early, while this process has only one thread, so that later forks are safe. Some forked
processes wait for commands on one socket; after a process has taken a command, another one is
forked. A reader process runs several reads in turn, because a new fork takes longer than a read.
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

#: Number of forked processes that wait for a command.
READY = 2
#: Number of file descriptors that are passed with a command: request, output, errors and messages.
_PASSED = 4
#: Formats of the messages that a command sends. At the start, it sends its process id. At the end,
#: it sends its exit code and whether its process accepts another command.
_BEGUN = struct.Struct("=i")
_ENDED = struct.Struct("=i?")
_TOLD = struct.Struct("=ii?")
#: Maximum number of commands that one reader process runs, and its maximum growth in kB. Both limit
#: the effect of memory leaks.
_MOST_READS = 1000
_MOST_GROWN = 64 << 10

Run = Callable[[list[str]], int]


class CommandEnd(NamedTuple):
    """The result of a command: its exit code (-1 if it was killed), output and errors."""

    code: int
    out: str
    err: str


class RunningCommand:
    """A command that runs in another process.

    ``news`` is a file descriptor. It becomes readable when the other process has sent a message,
    which `hear` then reads. ``stays`` is true if the process can run another command after this
    one.
    """

    def __init__(self, request: bytes, to: socket.socket) -> None:
        self._out, self._err = _create_memory_file(b""), _create_memory_file(b"")
        self.news, telling = os.pipe()
        self._heard = b""
        self.stays = False
        asked = _create_memory_file(request)
        try:
            socket.send_fds(to, [b"?"], [asked, self._out, self._err, telling])
        finally:
            os.close(asked)
            os.close(telling)

    def wait_for_message(self) -> CommandEnd | None:
        """Wait for the next message of the command.

        Returns the result if the command has ended, or None if it has just started.
        """
        told = os.read(self.news, _TOLD.size)
        self._heard += told
        is_whole = len(self._heard) == _TOLD.size
        if told and not is_whole:
            return None
        _, code, self.stays = _TOLD.unpack(self._heard) if is_whole else (0, -1, False)
        return CommandEnd(code, _read_text(self._out), _read_text(self._err))

    def stop(self) -> None:
        """Stop the command and its child processes. Do nothing if it has not started."""
        if self._heard:
            with suppress(ProcessLookupError):
                os.killpg(_BEGUN.unpack_from(self._heard)[0], signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self.news, self._out, self._err):
            os.close(file)


class WarmProcess:
    """A process with all imported modules, from which commands are forked.

    It ends together with this process. ``run`` executes one command line and returns its exit code.
    ``prepare`` imports the modules that commands need.
    """

    def __init__(self, run: Run, prepare: Callable[[], None]) -> None:
        self._own, commands = _create_socket_pair()
        self._asks, asked = _create_socket_pair()
        if os.fork() == 0:
            self._asks.close()
            self._own.close()
            _ForkServer(run, commands, asked).serve_until_parent_ends(prepare)
        commands.close()
        asked.close()

    def start_reader(self) -> socket.socket:
        """Start a reader process, and return the socket that sends commands to it.

        Closing the socket ends the reader.
        """
        own, other = _create_socket_pair()
        with other:
            socket.send_fds(self._asks, [b"?"], [other.fileno()])
        return own

    def start(
        self,
        arguments: Sequence[str],
        folder: Path,
        environ: Mapping[str, str],
        reader: socket.socket | None = None,
    ) -> RunningCommand:
        """Start a command in a folder, with additional environment variables.

        The command runs in its own process, or in the process behind the socket ``reader``, which
        must be idle. Leaving the `with` block closes the files of the command, but does not stop
        it.
        """
        request = json.dumps([list(arguments), str(folder), dict(environ)]).encode()
        return RunningCommand(request, reader or self._own)

    def close(self) -> None:
        """Stop the warm process. Commands that are running continue."""
        self._own.close()
        self._asks.close()


def _create_socket_pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _create_memory_file(content: bytes) -> int:
    file = os.memfd_create("wfctl", os.MFD_CLOEXEC)
    if content:
        os.write(file, content)
        os.lseek(file, 0, os.SEEK_SET)
    return file


def _read_text(file: int) -> str:
    size = os.fstat(file).st_size
    return os.pread(file, size, 0).decode(errors="replace")


class _ForkServer:
    """The warm process, which forks processes for commands until its parent has ended."""

    def __init__(self, run: Run, commands: socket.socket, asked: socket.socket) -> None:
        self._run = run
        self._commands = commands
        self._asked = asked
        self._taken, self._taking = os.pipe()

    def serve_until_parent_ends(self, prepare: Callable[[], None]) -> NoReturn:
        """Fork processes for commands until the parent has ended, then exit."""
        code = 1
        try:
            # Replace stdin and stdout. Otherwise, the client would not see the end of these streams
            # while this process exists.
            _attach_file(os.open(os.devnull, os.O_RDWR), 0, 1)
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            prepare()
            gc.freeze()
            for _ in range(READY):
                self._fork_process(self._serve_command)
            while self._fork_for_request():
                pass
            code = 0
        except Exception:  # noqa: BLE001 - nobody above is there to tell it
            traceback.print_exc()
        finally:
            os._exit(code)

    def _fork_for_request(self) -> bool:
        """Wait for a request and fork the required process.

        Returns whether the requesting process still exists.
        """
        asked = self._asked.fileno()
        ready = select.select([self._taken, asked], [], [])[0]
        if self._taken in ready:
            for _ in os.read(self._taken, READY):
                self._fork_process(self._serve_command)
        if asked not in ready:
            return True
        message, files, _, _ = socket.recv_fds(self._asked, 1, 1)
        for file in files:
            self._fork_process(partial(self._run_successive_reads, file))
            os.close(file)
        return bool(message)

    def _fork_process(self, serve: Callable[[], object]) -> None:
        if os.fork() == 0:
            try:
                os.close(self._taken)
                self._asked.close()
                serve()
            finally:
                os._exit(1)

    def _serve_command(self) -> NoReturn:
        files = _receive_command(self._commands)
        os.write(self._taking, b".")
        _begin_session()
        _run_received_command(self._run, files, lambda: False)
        os._exit(0)

    def _run_successive_reads(self, file: int) -> NoReturn:
        """Run reading commands one after another, each with the initial environment."""
        os.close(self._taking)
        self._commands.close()
        commands = socket.socket(fileno=file)
        _begin_session()
        known, mask = dict(os.environ), os.umask(0o077)
        os.umask(mask)
        size, left = _measure_memory(), _MOST_READS

        def stays() -> bool:
            return left > 0 and _measure_memory() - size < _MOST_GROWN

        while left:
            files = _receive_command(commands)
            left -= 1
            _run_received_command(self._run, files, stays)
            os.environ.clear()
            os.environ.update(known)
            os.umask(mask)
            # Leave the folder of the command. A folder that is the working directory of a process
            # cannot be unmounted.
            os.chdir("/")
            if not stays():
                break
        os._exit(0)


def _begin_session() -> None:
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _measure_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _receive_command(commands: socket.socket) -> list[int]:
    message, files, _, _ = socket.recv_fds(commands, 1, _PASSED)
    if not message:
        os._exit(0)
    return files


def _run_received_command(run: Run, files: list[int], stays: Callable[[], bool]) -> None:
    request, out, err, end = files
    os.set_inheritable(end, False)
    os.write(end, _BEGUN.pack(os.getpid()))
    arguments, folder, environ = json.loads(_read_text(request))
    os.close(request)
    os.environ.update(environ)
    _attach_file(out, 1)
    _attach_file(err, 2)
    code = _run_redirected(run, arguments, folder)
    os.write(end, _ENDED.pack(code, stays()))
    os.close(end)


def _run_redirected(run: Run, arguments: list[str], folder: str) -> int:
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


def _attach_file(file: int, *places: int) -> None:
    for place in places:
        os.dup2(file, place)
    os.close(file)
