"""Stages, attempts and evidence for the tests of the reconciler."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from reconciler.attempt.markers import Marker, MarkerState
from reconciler.attempt.observations import ObservedJob
from reconciler.attempt.paths import AttemptPaths
from reconciler.context import Mode
from reconciler.dpdispatcher.runner import DPDispatcherRunner
from reconciler.evidence.collect import collect_evidence
from reconciler.evidence.evidence import Evidence, OutputEvidence, Presence
from reconciler.host import processes
from reconciler.submission import build as submission
from reconciler.submission.build import StageJob
from reconciler.verdict.table import Verdict, derive_verdict

PROFILE = {"type": "local", "config": {"batch_type": "Shell", "context_type": "LocalContext"}}
NOW = "2026-05-04T12:00:00.000000Z"
TAG = "wf/stage-1/att-0001"
OUTPUT = "stage-1/out.txt"

WRITE = "echo hi > out.txt"
SHORT = f"sleep 2; {WRITE}"
LONG = f"while [ ! -e ../../../go ]; do sleep 0.05; done; {WRITE}"

NO_MARKER = Marker(MarkerState.NONE)
IN_PLACE = OutputEvidence(OUTPUT, Presence.PRESENT, True, 3, 2_000)
ABSENT = OutputEvidence(OUTPUT, Presence.MISSING)
JOB = ObservedJob("a" * 40, "4711", started=True, failed_flag=False, state=2)

NOTHING = Evidence(
    observed_at=NOW,
    attempt=TAG,
    root_recorded="/w",
    root_now="/w",
    host_recorded="h",
    host_now="h",
    boot_recorded="b",
    boot_now="b",
    launched_at=1_000,
    monitor_locked=False,
    monitor_alive=False,
    session=False,
    jobs=(),
    tenants=(),
    copies=(),
    recovery_file=False,
    backward_missing=(),
    exit_marker=NO_MARKER,
    done_marker=NO_MARKER,
    outputs=(ABSENT,),
)


def own(code: int) -> Marker:
    """Return an exit marker of the attempt under test."""
    return Marker(MarkerState.OWN, code, TAG, 3_000)


def seen(**changes: Any) -> Evidence:
    """Return evidence in which an attempt left no trace, with the given changes."""
    return replace(NOTHING, **changes)


def submitted(job: ObservedJob = JOB, **changes: Any) -> Evidence:
    """Return evidence of an attempt whose one job was submitted, with the given changes."""
    return seen(**{"jobs": (job,), "copies": ("c" * 40,), "recovery_file": True, **changes})


@dataclass(frozen=True)
class Stage:
    """A workflow of one stage in its own folder, with a real DPDispatcher."""

    root: Path
    environ: dict[str, str]

    def attempt(self, id_: str = "att-0001") -> AttemptPaths:
        """Return the paths of an attempt of the stage."""
        return AttemptPaths(self.root, "wf", "stage-1", id_, (OUTPUT,))

    def runner(self) -> DPDispatcherRunner:
        """Return a runner with the environment of this stage."""
        return DPDispatcherRunner(environ=self.environ)

    def run(self, attempt: AttemptPaths) -> int:
        """Run a monitor of the attempt to its end; return the recorded exit code."""
        self.runner().launch(attempt, Mode.SETSID)
        assert self.runner().wait(attempt, 120)
        return int(attempt.exit_code_record.read_text().split()[0])

    def prepare(self, command: str, id_: str = "att-0001") -> AttemptPaths:
        """Prepare an attempt that appends a line to a trace file and writes the output."""
        attempt = self.attempt(id_)
        traced = f'echo "$WFCTL_ATTEMPT" >> ../../../trace; {command}'
        given = submission.build_submission(StageJob("stage-1", traced, outputs=(OUTPUT,)), PROFILE)
        self.runner().prepare(attempt, given)
        return attempt

    def runs(self, attempt: AttemptPaths) -> int:
        """Return how many times the attempt's command was started, from the trace file."""
        trace = attempt.folder / "trace"
        return len(trace.read_text().splitlines()) if trace.exists() else 0


def judged(attempt: AttemptPaths) -> Verdict:
    """Collect the evidence of an attempt, send it through JSON, and return its verdict."""
    return derive_verdict(Evidence.from_dict(collect_evidence(attempt, NOW).to_dict()))


def until(holds: Callable[[], object], seconds: float = 200.0) -> None:
    """Wait until the condition is true, and fail the test after the given time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "what was waited for never came"
        time.sleep(0.01)


def kill_monitor(attempt: AttemptPaths) -> None:
    """Kill the monitor's wrapper script and its DPDispatcher, like a closing terminal."""
    pid = monitor_of(attempt)
    # Stop the wrapper first, so that it cannot start another child.
    send(pid, signal.SIGSTOP)
    for one in [*children(pid), pid]:
        end(one)
    until(lambda: processes.start_ticks(pid) is None)


def monitor_of(attempt: AttemptPaths) -> int:
    """Return the process id that the monitor recorded."""
    return int(json.loads(attempt.monitor_record.read_text())["pid"])


def children(pid: int) -> list[int]:
    """Return the children of a process, or an empty list if the process is gone."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def end(pid: int) -> None:
    """Kill a process, which may already be gone."""
    send(pid, signal.SIGKILL)


def send(pid: int, what: signal.Signals) -> None:
    """Send a signal to a process, which may already be gone."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, what)


def started(attempt: AttemptPaths) -> bool:
    """Return whether a job of the attempt has started and recorded its process."""
    return any(attempt.folder.glob("job-*.started/record"))


def recorded(attempt: AttemptPaths) -> bool:
    """Return whether DPDispatcher has written its recovery file for the submission."""
    return any(path.parent.name == path.stem for path in attempt.folder.glob("work/*/*.json"))


def let_go(attempt: AttemptPaths) -> None:
    """Create the file `go` in the attempt's folder, so that its waiting job ends."""
    (attempt.folder / "go").touch()


def end_tenants(attempt: AttemptPaths) -> None:
    """Kill all processes in the attempt's folder repeatedly, until none is left."""

    def none_left() -> bool:
        found = collect_evidence(attempt, NOW).tenants or ()
        for one in found:
            end(one.pid)
        return not found

    until(none_left)
