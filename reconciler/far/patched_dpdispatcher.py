"""Start a program of DPDispatcher faster, and correct some of its behaviour.

This script runs as a separate process, with DPDispatcher's Python. It takes the program and its
arguments, and does the same as the program, with these differences:

- Modules for remote and cloud machines are imported only when they are used.
- With ``--ends FOLDER`` before the program, DPDispatcher's pause after a submission ends when
  all started jobs have ended, so that the results of a short job are collected immediately.
- A submission that is continued does not overwrite files that its jobs have changed.
- The exit code shows whether a connection was lost, which is different from a refusal.
- If results cannot be collected for another reason, this is reported immediately.
- Only results are extracted from the archive of another machine.
- Python's cleanup at exit is skipped, because it takes a third of the time of a start.
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

#: Modules that are imported only when they are used. Each submodule follows its package.
DEFERRED_MODULES = ("paramiko", "paramiko.ssh_exception", "requests", "tqdm", "typeguard", "yaml")
_PAUSE, _CHECK_INTERVAL = 1, 0.01
#: Exit code EX_UNAVAILABLE: the machine gave no answer. It equals `contract.Ended.SILENT`, which is
#: not imported because this script must not depend on wfctl.
SILENT = 69


class DeferredModule(ModuleType):
    """A placeholder for a module that is imported at its first use."""

    #: Makes the placeholder look like a package, so that an import of one of its submodules does
    #: not load the real package.
    __path__: list[str] = []  # noqa: RUF012 - the import system reads it of a module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_import_deferred(self.__name__), name)


def _import_deferred(name: str) -> ModuleType:
    """Import a deferred module in place of its placeholder, and return it.

    Placeholders of the same package are removed first.
    """
    for known in [key for key, module in sys.modules.items() if isinstance(module, DeferredModule)]:
        if known.partition(".")[0] == name.partition(".")[0]:
            del sys.modules[known]
    return importlib.import_module(name)


def defer_imports() -> None:
    """Install placeholders for slow modules, so that they are imported when they are used.

    Packages that are already imported are unchanged.
    """
    packages = {name for name in DEFERRED_MODULES if "." not in name and name not in sys.modules}
    for name in DEFERRED_MODULES:
        package, _, own = name.partition(".")
        if package in packages:
            sys.modules[name] = DeferredModule(name)
            if own:
                setattr(sys.modules[package], own, sys.modules[name])


def patch_pause_to_end_with_jobs(folder: Path) -> None:
    """Shorten DPDispatcher's pause after a submission: it ends when all started jobs end."""
    import dpdispatcher.submission

    own = SimpleNamespace(**vars(time))
    own.sleep = lambda seconds: _sleep_until_jobs_end(folder, seconds)
    dpdispatcher.submission.time = own


def patch_upload_to_send_once() -> None:
    """Prevent DPDispatcher from sending files again after a submission.

    The jobs may have changed their copies of the files.
    """
    from dpdispatcher.submission import Submission

    send = Submission.upload_jobs
    Submission.upload_jobs = lambda own: (
        None if (any(job.job_id for job in own.belonging_jobs)) else send(own)
    )


def patch_download_to_fail_at_once() -> None:
    """Make DPDispatcher report immediately if it cannot collect results.

    By default it retries for a day, even for errors that never pass. Only a lost connection is
    retried.
    """
    from dpdispatcher.submission import Submission

    download = Submission.download_jobs

    def collect(own: Submission, *args: Any, **options: Any) -> None:
        try:
            download(own, *args, **options)
        except Exception as error:
            # DPDispatcher removes an archive only after unpacking it, so the archive would remain
            # after a failure.
            _path_in_root(own, f"{own.submission_hash}.tar.gz").unlink(missing_ok=True)
            if is_connection_lost(error) or isinstance(error, FileNotFoundError):
                raise
            raise FileNotFoundError(f"{type(error).__name__}: {error}") from error

    Submission.download_jobs = collect


def _path_in_root(submission: Any, name: str) -> Path:
    """Return the path at which DPDispatcher writes a file into the root of a submission."""
    return Path(submission.machine.context.local_root, name)


def patch_error_file_folder(folder: Path) -> None:
    """Make DPDispatcher write the error files of failed jobs into ``folder``.

    By default, it writes them into the root.
    """
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


def patch_download_to_extract_results(folder: Path) -> None:
    """Make DPDispatcher extract only results from an archive of another machine.

    ``folder`` is the folder of the attempt. By default, DPDispatcher accepts any file name inside
    the root. The archive could therefore replace settings of wfctl, inputs of the stage, or files
    of other stages.
    """
    from dpdispatcher.contexts import ssh_context

    # An installed DPDispatcher before version 1.1 has no such function and unpacks archives in
    # another way.
    if hasattr(ssh_context, "safe_extract_tar"):
        ssh_context.SSHContext.download = _wrap_dpdispatcher_download(
            ssh_context.SSHContext.download, folder
        )


def _wrap_dpdispatcher_download(download: Any, folder: Path) -> Any:
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
    """Return the members of an archive that are results and may be extracted.

    Files that were requested but may not be extracted, and files that wfctl writes, are skipped.
    Raises ValueError if the archive contains any other file.
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


def patch_host_key_check() -> None:
    """Make DPDispatcher connect only to machines with a known host key.

    By default, it accepts any key.
    """
    from dpdispatcher.contexts.ssh_context import SSHSession

    runpy.run_path(_neighbor_script_path("host_keys.py"))["check_host_keys"](SSHSession)


def _neighbor_script_path(name: str) -> str:
    return str(Path(__file__).with_name(name))


def patch_answers_to_skip_noise() -> None:
    """Make DPDispatcher ignore lines that a login shell prints around a command's output.

    Each command prints a random mark before and after its output.
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
    # The files of the job appear shortly before its shell ends. Wait until the shell has ended too.
    time.sleep(_CHECK_INTERVAL)


def skip_python_cleanup_at_exit() -> list[int]:
    """Make the process skip Python's cleanup when it exits.

    The caller puts the exit code into the returned list. Without a code, the process exits
    normally. The process still waits for its threads, and runs exit functions that are registered
    later.
    """
    code: list[int] = []
    atexit.register(_exit_now, code)
    return code


def _exit_now(code: list[int]) -> None:
    if code:
        # A program may have replaced its output streams, so the original streams are flushed too.
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            if stream is not None:
                stream.flush()
        os._exit(code[0])


def main(arguments: list[str]) -> None:
    """Run a Python program with its arguments and with the changes of this module."""
    defer_imports()
    if arguments[0] == "--ends":
        patch_pause_to_end_with_jobs(Path(arguments[1]))
        arguments = arguments[2:]
    if arguments[1:2] == ["submit"]:
        patch_upload_to_send_once()
        patch_download_to_fail_at_once()
        folder = Path(arguments[-1]).absolute().parent
        patch_error_file_folder(folder)
        patch_download_to_extract_results(folder)
        patch_host_key_check()
        patch_answers_to_skip_noise()
    sys.argv = arguments
    # The program must not import the modules next to this script, whose names may be those of other
    # modules.
    sys.path[0] = str(Path(arguments[0]).parent)
    runpy.run_path(arguments[0], run_name="__main__")


def is_connection_lost(error: BaseException) -> bool:
    """Return whether an error, or the error that caused it, means a lost connection."""
    loaded = sys.modules.get("paramiko.ssh_exception")
    of_ssh = () if loaded is None or isinstance(loaded, DeferredModule) else (loaded.SSHException,)
    if isinstance(error, (EOFError, ConnectionError, TimeoutError, *of_ssh)):
        return True
    # Paramiko raises this error for a closed connection without an error number, so it is
    # recognized by its text.
    closed = isinstance(error, OSError) and str(error) == "Socket is closed"
    before = error.__cause__ or error.__context__
    return closed or (before is not None and is_connection_lost(before))


if __name__ == "__main__":
    code = skip_python_cleanup_at_exit()
    try:
        main(sys.argv[1:])
        code.append(0)
    except SystemExit as ended:
        # An exit value that is not a number is an error message. Python prints it and sets the exit
        # code.
        code += [int(ended.code or 0)] if isinstance(ended.code, int | None) else []
        raise
    except Exception as error:
        if not is_connection_lost(error):
            raise
        traceback.print_exc()
        print("the machine closed the connection before all files were transferred", flush=True)
        code.append(SILENT)
