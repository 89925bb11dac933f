"""A runner that replaces each monitor process with one step of work in the test process.

The step does what the wrapper script does for scheduler jobs: inspect, submit, inspect, collect.
The real DPDispatcher submits and collects.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from reconciler.attempt.paths import AttemptPaths, WatchResult
from reconciler.context import LaunchResult, Mode
from reconciler.dpdispatcher import watch
from reconciler.dpdispatcher.runner import DPDispatcherRunner
from reconciler.far import query_machine
from reconciler.host.scheduler_jobs import UNHEARD

_SUBMITTER = Path(__file__).with_name("submitter.py")


@dataclass
class Submitter:
    """A child process with DPDispatcher loaded, which serves submissions."""

    process: subprocess.Popen[str]

    @classmethod
    def start(cls, folder: Path) -> Submitter:
        """Start the process with the folder as its current folder and its home."""
        process = subprocess.Popen(
            [sys.executable, str(_SUBMITTER)],
            cwd=folder,
            env={**os.environ, "HOME": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return cls(process)

    def submit(self, attempt: AttemptPaths, path: str) -> tuple[int, str]:
        """Submit the attempt, or poll its job once; return the exit code and output."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        before = attempt.log.stat().st_size if attempt.log.exists() else 0
        request = {
            "file": str(attempt.submission),
            "folder": str(attempt.root),
            "log": str(attempt.log),
            "path": path,
        }
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        code = int(self.process.stdout.readline())
        return code, attempt.log.read_text(errors="replace")[before:]

    def end(self) -> None:
        """Close the process's stdin, and wait for its end."""
        self.process.communicate()


class Monitor(DPDispatcherRunner):
    """The real runner, but a launch only does one step of a monitor in the test process."""

    def __init__(self, program: Path, submitter: Submitter) -> None:
        super().__init__(program)
        self._submitter = submitter

    def _launch_in_tmux(self, attempt: AttemptPaths) -> LaunchResult:
        return self._launch_detached(attempt, None)

    def _launch_detached(  # the base class has the note, too
        self,
        attempt: AttemptPaths,
        note: str | None = None,  # noqa: ARG002
    ) -> LaunchResult:
        attempt.log.touch()
        self._turn(attempt)
        return LaunchResult(Mode.SETSID, pid=os.getpid())

    def _turn(self, attempt: AttemptPaths) -> None:
        """Do one step of the wrapper script, with the same exit codes."""
        submitted: int | None = None
        for _ in range(3):
            evidence, found = watch.confirm_with_second_check(
                partial(watch._inspect_attempt, attempt)
            )
            watch._record_scheduler_ends(attempt, evidence)
            match watch._find_result(found):
                case WatchResult.OVER:
                    query_machine.tag_finished_jobs(attempt)
                    code, printed = self._submit(attempt)
                    # If the job still runs, a real monitor would continue to poll. This simulated
                    # monitor exits.
                    return None if "submission succeeded: " in printed else _finish(attempt, code)
                case WatchResult.COLLECTED:
                    return _finish(attempt, 0)
                case WatchResult.NOTHING if submitted is not None:
                    return _finish(attempt, submitted)
                case WatchResult.NOTHING:
                    submitted, printed = self._submit(attempt)
                    if any(words in printed for words in ("submission succeeded: ", *UNHEARD)):
                        submitted = int(WatchResult.SILENT)
                    elif submitted == 0:
                        return _finish(attempt, 0)
                case _:
                    return None
        return None

    def _submit(self, attempt: AttemptPaths) -> tuple[int, str]:
        return self._submitter.submit(attempt, os.environ["PATH"])


def _finish(attempt: AttemptPaths, code: int) -> None:
    attempt.exit_code_marker.write_text(f"{code}\n")
    for marker in (attempt.exit_code_record, attempt.done_marker):
        marker.write_text(f"{code}\n{attempt.tag} 2026-01-01T00:00:00.000000Z\n")
