"""Run wfctl commands as forks of a warm process, which has all modules loaded.

Starting Python and importing modules takes ten times as long as most commands. `run` works like
`subprocess.run` with ``[sys.executable, "-m", "cli.main", ...]``: the command has its own process,
environment, folder, streams and exit code. In /proc, a fork shows the command line and the initial
environment of the warm process. A test that finds processes by these must start wfctl normally.
"""

from __future__ import annotations

import array
import atexit
import importlib
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

HERE = Path(__file__).resolve().parents[1]
#: Prefixes of environment variables that the interpreter or its libraries read when they start.
_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "TZ")
#: Variables with such a prefix that a fork may still change: the modules are loaded already, and
#: child processes of a command start normally.
_NOT_AT_START = ("PYTHONPATH",)
_SIZE = 4
#: Environment variable with a user id. The forked command changes to this user, who cannot read the
#: program's files.
LOGIN = "WFCTL_TESTS_LOGIN"
#: Lock for requests to the warm process, because tests run commands from several threads.
_ONE = threading.Lock()


class Ended(NamedTuple):
    """The result of a command: exit code and output; a signal N gives the exit code -N."""

    returncode: int
    stdout: str
    stderr: str


class Warm:
    """A process with all modules of wfctl loaded, which forks a process for each command."""

    def __init__(self) -> None:
        #: Total processor time in seconds of the commands so far.
        self.spent = 0.0
        self._environ = _at_start(os.environ)
        self._own, other = socket.socketpair()
        with other:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forked", str(other.fileno())],
                cwd=HERE,
                stdin=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
            )
        atexit.register(self._own.close)

    def serves(self, environ: Mapping[str, str]) -> bool:
        """Return whether this process can fork a command with this environment."""
        return self._process.poll() is None and _at_start(environ) == self._environ

    def run(
        self,
        arguments: Iterable[str],
        cwd: Path | None,
        environ: Mapping[str, str],
        stdin: str,
        timeout: float,
    ) -> Ended:
        """Fork a process for the command, wait, and return its exit code and output."""
        with tempfile.TemporaryFile() as given, _file() as out, _file() as err:
            given.write(stdin.encode())
            given.seek(0)
            told, telling = os.pipe()
            with os.fdopen(told, "rb", buffering=0) as answer:
                try:
                    request = [list(arguments), str(cwd or Path.cwd()), dict(environ), _mask()]
                    files = [given.fileno(), out.fileno(), err.fileno(), telling]
                    self._ask(json.dumps(request).encode(), files)
                finally:
                    os.close(telling)
                code, seconds = _end(answer, timeout)
                self.spent += seconds
                return Ended(code, _text(out), _text(err))

    def _ask(self, request: bytes, files: list[int]) -> None:
        passed = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))
        with _ONE:
            self._own.sendmsg([len(request).to_bytes(_SIZE, "big")], [passed])
            self._own.sendall(request)


def _mask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _file() -> IO[bytes]:
    return tempfile.TemporaryFile()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return io.TextIOWrapper(io.BytesIO(file.read()), encoding="utf-8").read()


def _at_start(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(_AT_START) and name not in _NOT_AT_START
    }


def _end(answer: IO[bytes], timeout: float) -> tuple[int, float]:
    """Return the exit code and processor time of a command; kill it after the timeout."""
    pid = int(answer.read(16).decode())
    ready, _, _ = select.select([answer], [], [], timeout)
    if not ready:
        os.kill(pid, signal.SIGKILL)
        raise subprocess.TimeoutExpired(["wfctl"], timeout)
    return int(answer.read(16).decode()), float(answer.read(16).decode())


@cache
def _warm() -> Warm:
    """Return the warm process for this test process, starting it on the first call."""
    return Warm()


def spent() -> float:
    """Return the total processor time in seconds of all forked commands."""
    return _warm().spent if _warm.cache_info().currsize else 0.0


def run(
    arguments: Iterable[str],
    *,
    cwd: Path | None,
    environ: Mapping[str, str],
    stdin: str = "",
    timeout: float,
) -> Ended:
    """Run a wfctl command, and return its exit code and output.

    The command is forked from the warm process. It is started normally if its environment affects
    the start of the interpreter. Raises subprocess.TimeoutExpired.
    """
    with _ONE:
        warm = _warm()
    if warm.serves(environ):
        return warm.run(arguments, cwd, environ, stdin, timeout)
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", *arguments],
        cwd=cwd,
        env=environ,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def serve(connection: socket.socket) -> None:
    """Fork a command for each request, until the requester closes the connection."""
    warm_up()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        files = array.array("i")
        head, passed, _, _ = connection.recvmsg(_SIZE, socket.CMSG_SPACE(4 * files.itemsize))
        if not head:
            return
        for _, _, data in passed:
            files.frombytes(data)
        request = json.loads(_whole(connection, int.from_bytes(head, "big")))
        if os.fork() == 0:
            connection.close()
            _watch(files, *request)
        for file in files:
            os.close(file)


def _whole(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        found += connection.recv(size - len(found))
    return found


def warm_up() -> None:
    """Import the modules of all commands without running a command."""
    import pkgutil

    import cli
    import cli.program.tree

    for module in pkgutil.walk_packages(cli.__path__, "cli."):
        if module.name.rpartition(".")[2] != "__main__":
            importlib.import_module(module.name)
    for name in ("sqlalchemy.dialects.sqlite", "encodings.utf_8_sig", "urllib.request", "graphlib"):
        importlib.import_module(name)
    _load(cli.program.tree.build_program())


def _load(command: Any) -> None:
    """Build all subcommands now, because typer takes as long for this as a short command."""
    for below in list(getattr(command, "commands", {}).values()):
        _load(below)


def _watch(files: array.array[int], *request: Any) -> NoReturn:
    """Fork the command; write its process id, exit code and seconds to the last file."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told = files.pop()
    ready, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(told)
        os.close(go)
        os.read(ready, 1)
        _be(files, *request)
    os.write(told, f"{pid:16}".encode())
    os.close(go)
    _, status, used = os.wait4(pid, 0)
    seconds = used.ru_utime + used.ru_stime
    os.write(told, f"{os.waitstatus_to_exitcode(status):16}{seconds:16.3f}".encode())
    os._exit(0)


def _be(
    files: array.array[int], arguments: list[str], cwd: str, environ: dict[str, str], mask: int
) -> NoReturn:
    """Run the wfctl command in this forked process, and exit with its code."""
    from cli import main

    code = 1
    try:
        _take(files)
        os.chdir(cwd)
        os.umask(mask)
        os.environ.clear()
        os.environ.update(environ)
        if LOGIN in environ:
            os.setgroups([])
            os.setgid(int(environ[LOGIN]))
            os.setuid(int(environ[LOGIN]))

        sys.argv = [str(main.__file__), *arguments]
        code = _exit_code(main.main)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - this fork must not continue as the warm process
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        os._exit(code)


def _take(files: array.array[int]) -> None:
    """Make the files the standard streams, and close all other files of the warm process."""
    for stream, file in enumerate(files):
        os.dup2(file, stream)
    os.closerange(3, max(files) + 8)
    given = sys.stdin
    sys.stdin = open(0, encoding=given.encoding, errors=given.errors, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115


def _exit_code(main: Any) -> int:
    try:
        main()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 0


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
