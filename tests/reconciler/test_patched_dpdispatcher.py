"""wfctl starts DPDispatcher with deferred imports, which changes nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.far.patched_dpdispatcher import DEFERRED_MODULES, is_connection_lost
from reconciler.host.program import build_start_command

_LOADED = """
import sys
import dpdispatcher.dpdisp
import dpdispatcher.contexts.ssh_context as far
print(*(n for n in ("paramiko.transport", "requests.models", "tqdm.std") if n in sys.modules))
error = far.paramiko.ssh_exception.SSHException
print(far.paramiko.Transport.__module__, issubclass(error, Exception))
import paramiko
from paramiko.ssh_exception import SSHException
print(paramiko.SSHException is SSHException is far.paramiko.SSHException)
print(sys.argv, __name__, __file__)
"""


def run(folder: Path, text: str, *arguments: str) -> list[str]:
    """Run a program with this source text, and return the lines that it prints."""
    path = folder / "program"
    path.write_text(f"#!{sys.executable}\n{text}")
    command = [*build_start_command(path), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_unused_modules_are_imported_on_first_use(tmp_path: Path) -> None:
    """DPDispatcher loads the SSH and cloud modules only when a job uses them."""
    loaded, used, same, _ = run(tmp_path, _LOADED)
    assert loaded == ""
    assert used == "paramiko.transport True"
    assert same == "True"


_AS_IT_IS = """
import inspect, sys, time
import dpdispatcher.dpdisp
import dpdispatcher.contexts.ssh_context
from dpdispatcher import submission
print(*(name for name in sys.argv[1:] if name not in sys.modules))
print(submission.time is time, "time.sleep(1)" in inspect.getsource(submission))
print("upload_jobs" in vars(submission.Submission), "self.belonging_jobs" in
    inspect.getsource(submission.Submission), "self.job_id" in inspect.getsource(submission.Job))
"""


def test_installed_dpdispatcher_has_the_expected_structure(tmp_path: Path) -> None:
    """Another structure would break `defer_imports` and `patch_pause_to_end_with_jobs`."""
    line = [sys.executable, "-c", _AS_IT_IS, *DEFERRED_MODULES]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "True True", "True True True"]


def test_started_program_sees_its_own_name_and_arguments(tmp_path: Path) -> None:
    """The program runs as `__main__` with its usual sys.argv and __file__."""
    path = str(tmp_path / "program")
    *_, last = run(tmp_path, _LOADED, "submit", "--exit-on-submit")
    assert last == f"{[path, 'submit', '--exit-on-submit']} __main__ {path}"


def test_program_that_is_no_python_script_is_started_directly(tmp_path: Path) -> None:
    """Users may replace the dpdisp program with a shell script."""
    path = tmp_path / "dpdisp"
    path.write_text("#!/bin/sh\nexec true\n")
    assert build_start_command(path, tmp_path) == [str(path)]


#: A program with a thread, an exit handler and a destructor.
_ENDING = """
import atexit, sys, threading
class Apart:
    def __del__(self): print("taken apart")
kept = Apart()
kept.itself = kept
atexit.register(print, "done at the end")
main = threading.main_thread()
threading.Thread(target=lambda: (main.join(), print("the thread is done"))).start()
print("printed")
{end}
"""


@pytest.mark.parametrize(
    ("end", "code", "error"),
    [
        ("", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('it is full')", 1, "it is full"),
        ("raise OSError('it is full')", 1, "OSError: it is full"),
    ],
)
def test_started_program_ends_as_usual(tmp_path: Path, end: str, code: int, error: str) -> None:
    """The exit code, threads and exit handlers work, and only destructors are skipped."""
    path = tmp_path / "program"
    path.write_text(f"#!{sys.executable}\n{_ENDING.format(end=end)}")
    done = subprocess.run(build_start_command(path), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip().rpartition("\n")[2]) == (code, error)
    lines = ["printed", "the thread is done", "done at the end"]
    assert done.stdout.splitlines() == [*lines, *(["taken apart"] if error else [])]


@pytest.mark.parametrize(
    ("error", "cut"),
    [
        (EOFError(), True),
        (ConnectionResetError(104, "reset"), True),
        (OSError("Socket is closed"), True),
        (FileNotFoundError("cannot find upload file"), False),
        (PermissionError(13, "denied"), False),
        (RuntimeError("refused"), False),
    ],
    ids=repr,
)
def test_lost_connection_is_distinguished_from_a_refusal(error: Exception, cut: bool) -> None:
    """wfctl recognizes the cause even if DPDispatcher raises another exception after it."""
    assert is_connection_lost(error) is cut
    outer = RuntimeError("while it was handled")
    outer.__context__ = error
    assert is_connection_lost(outer) is cut
