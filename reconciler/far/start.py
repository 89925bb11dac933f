"""Start a program of DPDispatcher with fewer imports and without its pause, and end it immediately.

This script runs as a separate process, with DPDispatcher's Python: `start.py PROGRAM ARGUMENT…`
does the same as `PROGRAM ARGUMENT…`. Modules for remote and cloud machines are imported when they
are used. With ``--ends FOLDER`` before the program, DPDispatcher's pause after a submission ends
when all started jobs are over, so that a short job is collected immediately. A resumed submission
does not overwrite files that its jobs have changed. The exit code shows whether a connection broke,
which is not a refusal. Other obstacles to a collection are reported immediately. Only results are
extracted from the archive of another machine. Python's cleanup at exit, which takes a third of a
start, is skipped.
"""

from __future__ import annotations

import atexit
import importlib
import os
import runpy
import secrets
import shlex
import shutil
import sys
import time
import traceback
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

#: Modules that are imported later, each listed after its package.
DEFERRED_MODULES = ("paramiko", "paramiko.ssh_exception", "requests", "tqdm", "typeguard", "yaml")
_PAUSE, _CHECK_INTERVAL = 1, 0.01
#: EX_UNAVAILABLE: the machine gave no answer. Equals `contract.Ended.SILENT`, not imported here.
SILENT = 69


class DeferredModule(ModuleType):
    """A placeholder for a module that is imported at its first use."""

    #: It has modules of its own, whose imports must not load it.
    __path__: list[str] = []  # noqa: RUF012 - the import system reads it of a module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_import_deferred(self.__name__), name)


def _import_deferred(name: str) -> ModuleType:
    """Import a deferred module and its deferred dependencies in place of their placeholders."""
    for known in [key for key, module in sys.modules.items() if isinstance(module, DeferredModule)]:
        if known.partition(".")[0] == name.partition(".")[0]:
            del sys.modules[known]
    return importlib.import_module(name)


def defer_imports() -> None:
    """Defer the import of the modules until they are used, unless they are already imported."""
    packages = {name for name in DEFERRED_MODULES if "." not in name and name not in sys.modules}
    for name in DEFERRED_MODULES:
        package, _, own = name.partition(".")
        if package in packages:
            sys.modules[name] = DeferredModule(name)
            if own:
                setattr(sys.modules[package], own, sys.modules[name])


def end_pause_early(folder: Path) -> None:
    """End DPDispatcher's pause after a submission when the jobs of the folder are over."""
    import dpdispatcher.submission

    own = SimpleNamespace(**vars(time))
    own.sleep = lambda seconds: _sleep_until_jobs_end(folder, seconds)
    dpdispatcher.submission.time = own


def send_once() -> None:
    """Prevent DPDispatcher from sending files after a submission.

    The job may have changed its copy.
    """
    from dpdispatcher.submission import Submission

    send = Submission.upload_jobs
    Submission.upload_jobs = lambda own: (
        None if (any(job.job_id for job in own.belonging_jobs)) else send(own)
    )


def collect_once() -> None:
    """Make DPDispatcher report immediately that it cannot collect, unless a connection broke.

    By default it retries for a day, even for files with two names or with names that are not UTF-8.
    A missing file is not tried again.
    """
    from dpdispatcher.submission import Submission

    download = Submission.download_jobs

    def collect(own: Submission, *args: Any, **options: Any) -> None:
        try:
            download(own, *args, **options)
        except Exception as error:
            # DPDispatcher removes an archive only if it was able to unpack it.
            _path_in_root(own, f"{own.submission_hash}.tar.gz").unlink(missing_ok=True)
            if is_connection_lost(error) or isinstance(error, FileNotFoundError):
                raise
            raise FileNotFoundError(f"{type(error).__name__}: {error}") from error

    Submission.download_jobs = collect


def _path_in_root(submission: Any, name: str) -> Path:
    """Return the path of a file that DPDispatcher writes into the root of a submission."""
    return Path(submission.machine.context.local_root, name)


def keep_error_files(folder: Path) -> None:
    """Make DPDispatcher write the error files of failed jobs into a folder instead of the root."""
    from dpdispatcher.submission import Submission

    download = getattr(Submission, "try_download_error_info", None)
    if download is None:  # an earlier version of DPDispatcher
        return

    def move_error_files(own: Submission) -> None:
        download(own)
        for job in own.belonging_jobs:
            file = _path_in_root(own, f"{job.job_hash}_last_err_file")
            if file.is_file():
                shutil.move(file, folder / file.name)

    Submission.try_download_error_info = move_error_files


def collect_results_only(folder: Path) -> None:
    """Make DPDispatcher extract only results from an archive that another machine packed.

    ``folder`` is the folder of the attempt.

    DPDispatcher refuses names outside the root but accepts any name inside it. An archive could
    therefore contain settings of wfctl, inputs of this stage or files of others.
    """
    from dpdispatcher.contexts import ssh_context

    # DPDispatcher before 1.1 may stay installed after an upgrade, and unpacks in another way.
    if hasattr(ssh_context, "safe_extract_tar"):
        ssh_context.SSHContext.download = _extract_results_only(
            ssh_context.SSHContext.download, folder
        )


def _extract_results_only(download: Any, folder: Path) -> Any:
    from dpdispatcher.contexts import ssh_context

    extract = ssh_context.safe_extract_tar

    def download_results(
        own: Any, submission: Any, *args: Any, back_error: bool = False, **options: Any
    ) -> None:
        back = _list_file_patterns(submission, "backward")
        if back_error:
            back += [
                "error*",
                *(f"{one.task_work_path}/error*" for one in submission.belonging_tasks),
            ]
        sent, base = _list_file_patterns(submission, "forward"), Path(own.local_root)

        def extract_results(archive: Any, destination: str) -> None:
            archive.members = _select_result_members(archive, base, back, sent, folder)
            extract(archive, destination)

        ssh_context.safe_extract_tar = extract_results
        download(own, submission, *args, back_error=back_error, **options)

    return download_results


def _select_result_members(
    archive: Any, base: Path, back: list[str], sent: list[str], folder: Path
) -> list[Any]:
    """Return the members of an archive that are results.

    Requested files that are no results, as `is_result` decides, and wfctl's own files are left
    out. Raises ValueError if the archive holds any other file.
    """
    incoming = runpy.run_path(_neighbor_script_path("incoming.py"))
    is_result, is_own_file = incoming["is_result"], incoming["is_own_file"]
    is_requested = incoming["is_requested"]
    protected = incoming["read_protected_files"](folder)
    members = [(os.path.normpath(one.name), one) for one in archive.getmembers() if not one.isdir()]
    others = [name for name, _ in members if not is_requested(name, back) and not is_own_file(name)]
    if others:
        named = ", ".join(map(repr, others))[:200]
        raise ValueError(
            f"the archive from the machine contains files that are not results of the job: {named}"
        )
    return [one for name, one in members if is_result(base, name, back, sent, protected)]


def _list_file_patterns(submission: Any, way: str) -> list[str]:
    """Return the patterns of the files that a submission sends or downloads.

    ``way`` is ``forward`` or ``backward``.
    """
    common = list(getattr(submission, f"{way}_common_files"))
    return common + [
        f"{task.task_work_path}/{path}"
        for task in submission.belonging_tasks
        for path in getattr(task, f"{way}_files")
    ]


def check_host_keys() -> None:
    """Make DPDispatcher accept only machines with a known host key.

    By default, it accepts any key.
    """
    from dpdispatcher.contexts.ssh_context import SSHSession

    runpy.run_path(_neighbor_script_path("host_keys.py"))["check_host_keys"](SSHSession)


def _neighbor_script_path(name: str) -> str:
    return str(Path(__file__).with_name(name))


def frame_answers() -> None:
    """Make DPDispatcher read only the output of a remote command, without lines of the shell.

    The shell of a user account may print lines before and after the command. Each answer is between
    two random marks.
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


def _sleep_until_jobs_end(folder: Path, seconds: float) -> None:
    end = time.monotonic() + seconds
    if seconds != _PAUSE:
        time.sleep(seconds)
        return
    while time.monotonic() < end:
        begun = len(list(folder.glob("job-*.started")))
        if 0 < begun == len(list(folder.glob("job-*.exit"))):
            break
        time.sleep(_CHECK_INTERVAL)
    # Give the shell of the job time to record its end.
    time.sleep(_CHECK_INTERVAL)


def exit_without_cleanup() -> list[int]:
    """Make the process exit without cleanup when the returned list contains an exit code.

    The process still waits for its threads and runs exit functions that are registered later.
    """
    code: list[int] = []
    atexit.register(_exit_now, code)
    return code


def _exit_now(code: list[int]) -> None:
    if code:
        # A program may have replaced the streams with which it started.
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            if stream is not None:
                stream.flush()
        os._exit(code[0])


def main(arguments: list[str]) -> None:
    """Run a Python program with its arguments, as if it had been started directly."""
    defer_imports()
    if arguments[0] == "--ends":
        end_pause_early(Path(arguments[1]))
        arguments = arguments[2:]
    if arguments[1:2] == ["submit"]:
        send_once()
        collect_once()
        folder = Path(arguments[-1]).absolute().parent
        keep_error_files(folder)
        collect_results_only(folder)
        check_host_keys()
        frame_answers()
    sys.argv = arguments
    # The folder of this script contains modules that must not be imported by their bare names.
    sys.path[0] = str(Path(arguments[0]).parent)
    runpy.run_path(arguments[0], run_name="__main__")


def is_connection_lost(error: BaseException) -> bool:
    """Return whether an error, or the error that caused it, shows a lost connection."""
    loaded = sys.modules.get("paramiko.ssh_exception")
    of_ssh = () if loaded is None or isinstance(loaded, DeferredModule) else (loaded.SSHException,)
    if isinstance(error, (EOFError, ConnectionError, TimeoutError, *of_ssh)):
        return True
    # Paramiko gives this error no errno.
    closed = isinstance(error, OSError) and str(error) == "Socket is closed"
    before = error.__cause__ or error.__context__
    return closed or (before is not None and is_connection_lost(before))


if __name__ == "__main__":
    code = exit_without_cleanup()
    try:
        main(sys.argv[1:])
        code.append(0)
    except SystemExit as ended:
        # Any other exit value is a message, which Python prints.
        code += [int(ended.code or 0)] if isinstance(ended.code, int | None) else []
        raise
    except Exception as error:
        if not is_connection_lost(error):
            raise
        traceback.print_exc()
        print("the machine closed the connection before all files were transferred", flush=True)
        code.append(SILENT)
