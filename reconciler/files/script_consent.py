"""Check that the scripts of a stage are the scripts that were approved."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lifecycle.errors import NeedsConsent
from lifecycle.rules.stages import require_agreed_plan
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.sweeps.definition import VERDICTS
from reconciler.context import JobContext
from service.consent.scripts import (
    explain_unpinnable_scripts,
    find_changed_digests,
    find_scripts_violating_pins,
    find_unchanged_job_files,
    find_verify_paths,
)
from wording import TemplatedError


class ScriptsChanged(TemplatedError, NeedsConsent):
    """No person approved the current content of the files to run."""

    code = "scripts_changed"
    text = (
        "{where}: a person approved the files that may run (session_config.pin), and these "
        "files have changed since: {files:, }. Restore the files, or propose the new "
        "versions with `wfctl amend propose --set session_config.pin=scripts --reason …`; a "
        "person decides."
    )
    where: str
    files: Sequence[str]


class ScriptsUnknown(TemplatedError, NeedsConsent):
    """No person approved the current content of the files to run."""

    code = "scripts_unknown"
    text = (
        "{where}: only pinned files may run (session_config.pin), but {reasons:; }. Or ask a "
        "person to approve a plan without the pin: `wfctl plan apply PLAN --reason TEXT`."
    )
    where: str
    reasons: Sequence[str]


def check_plan_and_scripts_approved(jobs: JobContext, state: Workflow, where: str) -> None:
    """Check that the plan and its files may run, before anything runs.

    Raises `NeedsConsent` while the plan waits for its approval, `ScriptsChanged` if an approved
    file changed or a file to run was not approved, and `ScriptsUnknown` if the digest of a file is
    unknown.
    """
    require_agreed_plan(state, f"{where} runs nothing")
    found = find_scripts_violating_pins(jobs.root, state)
    if found:
        raise ScriptsChanged(where, found)
    unknown = explain_unpinnable_scripts(jobs.root, state)
    if unknown:
        raise ScriptsUnknown(where, unknown)


class VerdictChanged(TemplatedError, NeedsConsent):
    """A check script changed after it rejected results, and no person approved the change."""

    code = "verdict_changed"
    text = (
        "{stage}: {attempt} did not pass its check, and {files:, }, which the check uses, "
        "has changed since. Restore the old file, or ask a person to approve the new one: "
        "`wfctl amend propose --set session_config.pin=scripts --reason …`."
    )
    stage: str
    attempt: str
    files: Sequence[str]


def check_verify_scripts_unchanged(jobs: JobContext, state: Workflow, stage: Stage) -> None:
    """Raise `VerdictChanged` if a check script has changed since it rejected an attempt.

    A change that a person approved is allowed.
    """
    if (found := find_changed_verify_scripts(jobs.root, state, stage)) is not None:
        raise found


def find_changed_verify_scripts(root: Path, state: Workflow, stage: Stage) -> VerdictChanged | None:
    """Return an error that names check scripts which must not judge the stage, or None.

    These scripts changed after they rejected an attempt of the stage, and no person approved the
    change.
    """
    refuted = next((one for one in reversed(stage.attempts) if _has_rejected_results(one)), None)
    if refuted is None:
        return None
    own = find_verify_paths(root, stage)
    found = find_changed_digests(
        root, {path: sha for path, sha in refuted.scripts.items() if path in own}
    )
    unasked = {path for path, now in found.items() if state.scripts.get(path) != now}
    unasked -= find_unchanged_job_files(root, state) if unasked else set()
    return VerdictChanged(stage.id, refuted.id, sorted(unasked)) if unasked else None


def _has_rejected_results(attempt: Attempt) -> bool:
    failed = (attempt.tasks or {}).get("failures", [])
    return attempt.is_refuted or any(str(f.get("because")).startswith(VERDICTS) for f in failed)
