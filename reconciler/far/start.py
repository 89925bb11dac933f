"""Starts a program of DPDispatcher with half the imports, without its pause, and ends it at once.

Run as a process of its own, by the Python that has DPDispatcher: `start.py PROGRAM ARGUMENT…`
does what `PROGRAM ARGUMENT…` would do. DPDispatcher imports what every machine could need; here
a connection to a far machine and a client of the cloud are imported once they are used. With
``--ends FOLDER`` before the program, the second for which DPDispatcher pauses after a submission
ends as soon as the jobs that have begun are over, so that a short one is collected at once. A
submission that is taken up again sends no file over what its jobs have changed. The exit code tells
that a connection broke, which is silence and no refusal; what else hinders a collection is told at
once. Python's own work at the end of a process, a third of a start, is left out.
"""

from __future__ import annotations

import atexit
import importlib
import os
import runpy
import secrets
import shlex
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

#: What is imported later, each after the package that it lies in.
LATER = ("paramiko", "paramiko.ssh_exception", "requests", "tqdm", "typeguard", "yaml")
_PAUSE, _LOOK = 1, 0.01
#: EX_UNAVAILABLE: a machine gave no answer. `contract.Ended.SILENT`, which is not imported here.
SILENT = 69


class Later(ModuleType):
    """Stands for a module until something of it is asked for."""

    #: It has modules of its own, whose imports must not load it.
    __path__: list[str] = []  # noqa: RUF012 - the import system reads it of a module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_loaded(self.__name__), name)


def _loaded(name: str) -> ModuleType:
    """Import a module, and all whose turn comes with it, in place of what stands for it."""
    for known in [key for key, module in sys.modules.items() if isinstance(module, Later)]:
        if known.partition(".")[0] == name.partition(".")[0]:
            del sys.modules[known]
    return importlib.import_module(name)


def put_off() -> None:
    """Let the modules be imported when they are used; not those that are imported already."""
    packages = {name for name in LATER if "." not in name and name not in sys.modules}
    for name in LATER:
        package, _, own = name.partition(".")
        if package in packages:
            sys.modules[name] = Later(name)
            if own:
                setattr(sys.modules[package], own, sys.modules[name])


def hurry(folder: Path) -> None:
    """End DPDispatcher's pause after a submission once the jobs of the folder are over."""
    import dpdispatcher.submission

    own = SimpleNamespace(**vars(time))
    own.sleep = lambda seconds: _sleep(folder, seconds)
    dpdispatcher.submission.time = own


def send_once() -> None:
    """Let DPDispatcher send no file once a job was submitted: the job may have changed its copy."""
    from dpdispatcher.submission import Submission

    send = Submission.upload_jobs
    Submission.upload_jobs = lambda own: (
        None if (any(job.job_id for job in own.belonging_jobs)) else send(own)
    )


def collect_once() -> None:
    """Let DPDispatcher say at once that it cannot collect, unless a connection broke.

    It tries for a day, though it never takes a file of two names, or a name that is no UTF-8; what
    is not found it does not try again.
    """
    from dpdispatcher.submission import Submission

    download = Submission.download_jobs

    def collect(own: Submission, *args: Any, **options: Any) -> None:
        try:
            download(own, *args, **options)
        except Exception as error:
            if is_cut(error) or isinstance(error, FileNotFoundError):
                raise
            raise FileNotFoundError(f"{type(error).__name__}: {error}") from error

    Submission.download_jobs = collect


def frame_answers() -> None:
    """Let DPDispatcher read what a command on another machine prints, and no line of its shell's.

    The shell of a user's account may print lines before and after the command. Each answer stands
    between two random marks.
    """
    from dpdispatcher.contexts.local_context import SPRetObj
    from dpdispatcher.contexts.ssh_context import SSHContext

    call = SSHContext.block_call

    def framed(own: SSHContext, command: str) -> tuple[int, Any, Any, Any]:
        mark = secrets.token_hex(16)
        script = f"echo {mark}\n{command}\ncode=$?; echo {mark}; exit $code"
        code, stdin, stdout, stderr = call(own, f"exec bash -c {shlex.quote(script)}")
        parts = stdout.read().split(f"{mark}\n".encode())
        return code, stdin, SPRetObj(parts[1] if len(parts) == 3 else b""), stderr

    SSHContext.block_call = framed


def _sleep(folder: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    if seconds != _PAUSE:
        time.sleep(seconds)
        return
    while time.monotonic() < end:
        begun = len(list(folder.glob("job-*.started")))
        if 0 < begun == len(list(folder.glob("job-*.exit"))):
            break
        time.sleep(_LOOK)
    # The shell of a job writes down its end, and then it ends.
    time.sleep(_LOOK)


def end_at_once() -> list[int]:
    """Let the process end as it stands, once its exit code is in the list that is returned.

    Its threads are waited for, and what is registered later for its end is done before.
    """
    code: list[int] = []
    atexit.register(_end, code)
    return code


def _end(code: list[int]) -> None:
    if code:
        # A program may have put others in the place of the streams that it began with.
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            if stream is not None:
                stream.flush()
        os._exit(code[0])


def main(arguments: list[str]) -> None:
    """Run a program of Python with its arguments, as if it had been started itself."""
    put_off()
    if arguments[0] == "--ends":
        hurry(Path(arguments[1]))
        arguments = arguments[2:]
    if arguments[1:2] == ["submit"]:
        send_once()
        collect_once()
        frame_answers()
    sys.argv = arguments
    # The folder of this script holds modules that are nobody's.
    sys.path[0] = str(Path(arguments[0]).parent)
    runpy.run_path(arguments[0], run_name="__main__")


def is_cut(error: BaseException) -> bool:
    """Say whether a connection broke, by an error or by one that it was raised from."""
    loaded = sys.modules.get("paramiko.ssh_exception")
    of_ssh = () if loaded is None or isinstance(loaded, Later) else (loaded.SSHException,)
    if isinstance(error, (EOFError, ConnectionError, TimeoutError, *of_ssh)):
        return True
    # Paramiko gives this error no number.
    closed = isinstance(error, OSError) and str(error) == "Socket is closed"
    before = error.__cause__ or error.__context__
    return closed or (before is not None and is_cut(before))


if __name__ == "__main__":
    code = end_at_once()
    try:
        main(sys.argv[1:])
        code.append(0)
    except SystemExit as ended:
        # Anything else is a message, which Python prints.
        code += [int(ended.code or 0)] if isinstance(ended.code, int | None) else []
        raise
    except Exception as error:
        if not is_cut(error):
            raise
        traceback.print_exc()
        print("the connection to the machine was closed before all files had passed", flush=True)
        code.append(SILENT)
