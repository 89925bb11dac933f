"""Register the extension ``proofs`` with the core of wfctl."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from cli.frame.workspace import OpenedWorkflow
from wfctl_eventstore.extension import CheckedCheckpoints, Extension


class ProofsExtension(Extension):
    """Sign checkpoints of a log, obtain signatures of witnesses, and prove results."""

    commands = {
        "pin": "extensions.proofs.pin_command",
        "checkpoint": "extensions.proofs.command",
        "witness watch": "extensions.proofs.witness_command",
        "witness serve": "extensions.proofs.witness_command",
        "witness cosign": "extensions.proofs.witness_command",
        "witness show": "extensions.proofs.witness_command",
        "prove": "extensions.proofs.command",
    }
    help_sections = {
        "Share and prove": {
            "checkpoint": "Sign the current state of the log",
            "witness": "Confirm that nobody changed or deleted events of other logs",
            "prove": "Write a proof that a result was recorded",
            "pin": "Show the pinned logs, which nobody can replace unnoticed",
        },
    }
    groups = {"witness": None}

    def check_checkpoints(
        self,
        workflow: OpenedWorkflow,
        machines: Iterable[str] = (),
        files: Sequence[Path] = (),
        witnesses: Sequence[str] = (),
        keys: Sequence[str] = (),
    ) -> CheckedCheckpoints:
        """Compare the logs in the folder with every known checkpoint.

        Raises `NotWitnessed` if a witness cannot be reached.
        """
        from extensions.proofs.check_checkpoints import judge_checkpoints

        found = judge_checkpoints(workflow, machines, files, witnesses, keys)
        return CheckedCheckpoints(found.agree, found.findings, found.passed_over)


EXTENSION = ProofsExtension()
