"""The machine of an attempt: where its jobs run, who starts them, and where their files lie."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from reconciler.attempt import recorded as genuine
from reconciler.attempt.paths import AttemptPaths
from reconciler.errors import DamagedAttempt, UnusableSubmission
from service.root.below import seen_from

#: Batch types that can be passed through; those without a scheduler that is asked by name too.
_SHELL, _SLURM = "shell", "slurm"
_BATCH_TYPES = frozenset({_SHELL, _SLURM, "pbs", "torque", "lsf", "sge"})
_CONTEXTS = {
    "localcontext": "LocalContext",
    "local": "LocalContext",
    "sshcontext": "SSHContext",
    "ssh": "SSHContext",
}


@dataclass(frozen=True, slots=True)
class ExecutionHost:
    """Where an attempt's jobs run, without anything that lets one in.

    ``scratch`` is the folder below which its scratch copies are made, on that machine.
    """

    batch_type: str
    context_type: str
    scratch: str

    @property
    def is_far(self) -> bool:
        """Whether the files of the jobs lie on another machine."""
        return self.context_type == "SSHContext"

    @property
    def has_scheduler(self) -> bool:
        """Whether jobs wait in a queue."""
        return self.batch_type.lower() != _SHELL

    @property
    def has_slurm(self) -> bool:
        """Whether the scheduler is one that can be asked."""
        return self.batch_type.lower() == _SLURM

    def to_text(self) -> str:
        """Return the description as it is kept in the attempt's folder."""
        return json.dumps(asdict(self), indent=2) + "\n"


def checked(given: Mapping[str, Any]) -> tuple[str, str]:
    """Return batch type and context type of a machine; raises UnusableSubmission."""
    context = _CONTEXTS.get(str(given.get("context_type")).lower())
    if context is None:
        raise UnusableSubmission(
            "machine.context_type",
            "LocalContext or SSHContext",
            given.get("context_type"),
            "A lazy context would skip what an earlier attempt finished; others keep no files.",
        )
    batch = given.get("batch_type")
    if str(batch).lower() not in _BATCH_TYPES:
        known = "Shell, Slurm, PBS, Torque, LSF or SGE"
        remedy = "Name one of these, each task a job of its own in place of a job array."
        raise UnusableSubmission("machine.batch_type", known, batch, remedy)
    return str(batch), context


def of(attempt: AttemptPaths) -> ExecutionHost:
    """Return the machine of a prepared attempt; a local shell where nothing is written down.

    Raises DamagedAttempt where what is written down cannot be read, and no copy is left.
    """
    known = (_machine(text) for text in genuine.machine_text(attempt))
    where = next((one for one in known if one is not None), None) or _submitted_to(attempt)
    if where is None:
        if os.path.lexists(attempt.machine_record):
            raise DamagedAttempt(attempt.stage, attempt.machine_record, "it names no machine")
        return ExecutionHost("Shell", "LocalContext", str(attempt.work))
    own = attempt.work.relative_to(attempt.root)
    if not where.is_far and where.scratch.endswith(f"/{own}"):
        # It moves with the root.
        return replace(where, scratch=str(attempt.work))
    return where


def _machine(text: str) -> ExecutionHost | None:
    try:
        found = ExecutionHost(**json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    return found if all(isinstance(value, str) for value in asdict(found).values()) else None


def _submitted_to(attempt: AttemptPaths) -> ExecutionHost | None:
    """Return the machine as the attempt's submission names it, unless it refers to a file."""
    given = (genuine.submission_of(attempt) or {}).get("machine")
    if not isinstance(given, dict) or "remote_root" not in given or "batch_type" not in given:
        return None
    batch_type, context_type = checked(given)
    return ExecutionHost(batch_type, context_type, str(given["remote_root"]))


def reference(machine: Mapping[str, Any], folder: Path) -> Path | None:
    """Return the file that a machine is taken from, seen from ``folder``; None without one."""
    return seen_from(folder, str(machine["$ref"])) if "$ref" in machine else None
