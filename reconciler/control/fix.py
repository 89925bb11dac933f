"""A fix of a failed stage: what it may change by itself, and what only an amendment may."""

from __future__ import annotations

from typing import Any

from lifecycle.errors import NeedsConsent
from lifecycle.payload import models as p
from lifecycle.rules.schema import payload_of
from lifecycle.state.workflow import Stage
from reconciler.attempt.contract import PREPARED
from reconciler.attempt.paths import of_recorded
from reconciler.context import Jobs
from reconciler.records import traces
from reconciler.submission import build as submission
from service.writing.stream_writer import WriteOptions
from service.writing.workflow_service import Outcome


def retry(
    jobs: Jobs, id_: str, fix: str, options: WriteOptions, *, regenerate: bool = False
) -> Outcome:
    """Let a failed stage run again after a fix, which ``fix`` says in words.

    ``regenerate``: its submission is built anew. Raises `NeedsConsent` where the prepared
    submission.json was changed in what the stage's parameters say: the command, or the resources.
    """
    values = {"stage": id_, "fix": fix, "regenerate": regenerate}
    command = payload_of(p.StageRetried.type, values)
    first = jobs.service.first_answer(options, command)
    if first is not None:
        return first
    touched = [] if regenerate else _touched(jobs, jobs.service.state().stage(id_))
    if touched:
        refusal = _refusal(id_, touched)
        if not options.dry_run:
            jobs.service.record_refusal([command], refusal)
        raise refusal
    return jobs.service.handle(command, options=options)


def _touched(jobs: Jobs, stage: Stage) -> list[str]:
    """Return the parameters that the prepared submission changes since the last attempt."""
    prepared = jobs.root / stage.id / PREPARED
    attempt = next((a for a in reversed(stage.attempts) if not a.diagnostic), None)
    # An amendment that was approved since has the submission built anew.
    if attempt is None or stage.regenerate or not prepared.is_file():
        return []
    own = of_recorded(jobs.root, "", stage.id, attempt)
    ran = traces.read_json(own.submission)
    if ran is None:
        return []
    now = submission.read(prepared)
    named = stage.parameters.get("command") is not None
    touched = ["parameters.command"] if named and _commands(ran) != _commands(now) else []
    if _resources(ran) != _resources(now):
        touched.append("parameters.resource_overrides")
    return touched


def _commands(given: dict[str, Any]) -> list[Any]:
    return [task.get("command") for task in given.get("task_list", [])]


def _resources(given: dict[str, Any]) -> dict[str, Any]:
    """Return what is asked for; the environment and the guard of an attempt are wfctl's."""
    resources = dict(given.get("resources", {}))
    ours = ("envs", "prepend_script", "group_size")
    return {key: value for key, value in resources.items() if key not in ours}


def _refusal(id_: str, touched: list[str]) -> NeedsConsent:
    names = " and ".join(touched)
    return NeedsConsent(
        f"{id_}: its submission.json changes {names}, and a fix that changes parameters is an "
        "amendment. Propose it (`wfctl amend propose`); once it is approved, the submission is "
        "built anew. A fix of an input script needs none.",
        stage=id_,
        fields=touched,
    )
