"""The port to whatever runs jobs. The docstrings are the specification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Protocol

from reconciler.attempt.paths import AttemptPaths


class Mode(StrEnum):
    """How a monitor is started."""

    TMUX = "tmux"
    SETSID = "setsid"
    SYNC = "sync"


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """What a launch came to.

    ``mode`` is the one that was used, which differs from the one asked for where ``note`` says
    so in a sentence for the caller to print. ``session`` is the tmux session, ``pid`` the
    monitor's.
    """

    mode: Mode
    session: str | None = None
    pid: int | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class SubmissionFacts:
    """What the files of an attempt tell about its submission; None or empty where they do not.

    ``host`` and ``boot_id`` are the monitor's machine, ``job_host`` and ``job_boot_id`` that of
    the jobs where it is another one.
    """

    submission_hash: str | None = None
    job_hashes: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()
    work_dir: str | None = None
    dpdispatcher_version: str | None = None
    host: str | None = None
    boot_id: str | None = None
    job_host: str | None = None
    job_boot_id: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, sequences as lists."""
        return {**asdict(self), "job_hashes": list(self.job_hashes), "job_ids": list(self.job_ids)}


class JobRunner(Protocol):
    """Runs the jobs of attempts, one submission and one run each."""

    def check(self, attempt: AttemptPaths, submission: Mapping[str, Any]) -> str:
        """Check what the attempt would submit, as ``prepare`` does; write nothing.

        Returns its SHA-256.

        Raises what ``prepare`` raises.
        """

    def prepare(self, attempt: AttemptPaths, submission: Mapping[str, Any]) -> str:
        """Write what the attempt submits, have it checked, and return its SHA-256.

        Starts no computation, and leaves what a person or agent wrote as it is. Raises
        UnusableSubmission, RejectedSubmission, ProgramMissing.
        """

    def launch(self, attempt: AttemptPaths, mode: Mode) -> LaunchResult:
        """Start a monitor of a prepared attempt.

        Called again for the same attempt it attaches: whatever was killed in between, a
        computation of this attempt that has started is never started again, and one that is
        over is collected. Returns when the monitor has taken up its work; one that is killed before
        that is started once more. Raises AlreadyMonitored, LaunchFailed, ProgramMissing.
        """

    def wait(self, attempt: AttemptPaths, timeout: float | None = None) -> bool:
        """Wait until no monitor of the stage lives; False after ``timeout`` seconds."""

    def facts(self, attempt: AttemptPaths) -> SubmissionFacts:
        """Return what is known of the submission, from the attempt's files alone."""
