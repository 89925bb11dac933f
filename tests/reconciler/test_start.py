"""Programs of DPDispatcher are started with what they need, and do what they would do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from reconciler.far.start import LATER, is_cut
from reconciler.host.program import starting

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
    """Start a program of this text and return the lines that it prints."""
    path = folder / "program"
    path.write_text(f"#!{sys.executable}\n{text}")
    command = [*starting(path), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_what_no_local_job_needs_is_imported_when_it_is_used(tmp_path: Path) -> None:
    """A connection and a client of the cloud are not there until somebody asks for them."""
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


def test_dpdispatcher_has_what_its_start_counts_on(tmp_path: Path) -> None:
    """A version that has it elsewhere is told by this: look at `put_off`, `hurry`, `send_once`."""
    line = [sys.executable, "-c", _AS_IT_IS, *LATER]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["", "True True", "True True True"]


def test_a_program_is_run_as_if_it_were_started_itself(tmp_path: Path) -> None:
    """It finds its own name, its arguments, and that it is the main program."""
    path = str(tmp_path / "program")
    *_, last = run(tmp_path, _LOADED, "submit", "--exit-on-submit")
    assert last == f"{[path, 'submit', '--exit-on-submit']} __main__ {path}"


def test_a_program_that_is_no_python_is_started_as_it_is(tmp_path: Path) -> None:
    """Somebody's own program before DPDispatcher runs as somebody wrote it."""
    path = tmp_path / "dpdisp"
    path.write_text("#!/bin/sh\nexec true\n")
    assert starting(path, tmp_path) == [str(path)]


#: Ends in a way of its own, with a thread, a printed line and a last deed still to be done.
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
def test_an_end_is_what_it_would_be(tmp_path: Path, end: str, code: int, error: str) -> None:
    """Its exit code, its threads and its last deeds; what is left out is to take it apart."""
    path = tmp_path / "program"
    path.write_text(f"#!{sys.executable}\n{_ENDING.format(end=end)}")
    done = subprocess.run(starting(path), capture_output=True, text=True, check=False)
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
def test_a_broken_connection_is_told_from_a_refusal(error: Exception, cut: bool) -> None:
    """Also where DPDispatcher raises something else while it handles it."""
    assert is_cut(error) is cut
    outer = RuntimeError("while it was handled")
    outer.__context__ = error
    assert is_cut(outer) is cut
