"""Pinned scripts: where a person agreed to the files that are run, and not only to their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lifecycle.errors import NeedsConsent
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.sweeps.definition import VERDICTS
from reconciler.context import Jobs
from service.consent.scripts import changed, data_left, judging, others


class ScriptsChanged(NeedsConsent):
    """Files that would run are not those that were agreed to."""

    code = "scripts_changed"

    def __init__(self, where: str, paths: Sequence[str]) -> None:
        super().__init__(
            f"{where}: session_config.pin holds the files that may run, and these are others now: "
            f"{', '.join(paths)}. Bring them back, or propose them as they are: `wfctl amend "
            "propose --set session_config.pin=scripts --reason …`; a person decides.",
            where=where,
            files=list(paths),
        )


def check_pinned(jobs: Jobs, state: Workflow, where: str) -> None:
    """Raise `ScriptsChanged` where a pinned file is another one, or one that runs is not pinned."""
    found = others(jobs.root, state)
    if found:
        raise ScriptsChanged(where, found)


class VerdictChanged(NeedsConsent):
    """What failed by one script would be judged by another one, which no person has agreed to."""

    code = "verdict_changed"

    def __init__(self, stage: str, attempt: str, paths: Sequence[str]) -> None:
        super().__init__(
            f"{stage}: {attempt} did not pass by {', '.join(paths)} as it was when that attempt "
            "started, and it is another file now. Bring it back, or have a person agree to it: "
            "`wfctl amend propose --set session_config.pin=scripts --reason …`.",
            stage=stage,
            attempt=attempt,
            files=list(paths),
        )


def check_verdict(jobs: Jobs, state: Workflow, stage: Stage) -> None:
    """Raise `VerdictChanged` where a script differs from that by which an attempt did not pass.

    One that a person agreed to since is as good: an approval holds the digests of all scripts.
    """
    if (found := other_verdict(jobs.root, state, stage)) is not None:
        raise found


def other_verdict(root: Path, state: Workflow, stage: Stage) -> VerdictChanged | None:
    """Return why the stage may not be judged by its scripts as they are now, if it may not."""
    refuted = next((one for one in reversed(stage.attempts) if _did_not_pass(one)), None)
    if refuted is None:
        return None
    own = judging(stage)
    then = {path: sha256 for path, sha256 in refuted.scripts.items() if path in own}
    found = changed(root, then)
    unasked = {path for path, now in found.items() if state.scripts.get(path) != now}
    unasked -= data_left(root, state) if unasked else set()
    return VerdictChanged(stage.id, refuted.id, sorted(unasked)) if unasked else None


def _did_not_pass(attempt: Attempt) -> bool:
    """Whether something that it computed was refused by its verdict."""
    failed = (attempt.tasks or {}).get("failures", [])
    by_task = any(str(one.get("because")).startswith(VERDICTS) for one in failed)
    return attempt.is_refuted or by_task
