"""What a stage's definition says is submitted, and what an attempt of it rests on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from eventstore.private import NotRegular
from lifecycle.errors import Refused
from lifecycle.payload import models as p
from lifecycle.state.dependencies import needed_by
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.words.cause import problems, wanted
from reconciler.attempt.contract import PREPARED
from reconciler.attempt.markers import Input, digests
from reconciler.attempt.paths import of_recorded
from reconciler.attempt.recorded import forwarded
from reconciler.errors import ReconcilerError, UnusableProfile
from reconciler.files.pinned import files_beside
from reconciler.submission import build as submission
from reconciler.submission import fields as shape
from reconciler.submission.agreed import (
    SubmissionDrift,
    check_recorded,
    computed_otherwise,
    differences,
)
from reconciler.submission.fields import environment
from service.consent.scripts import scripts_of

_PARAMETERS = {
    "command": "text",
    "forward_files": "a list of text",
    "backward_files": "a list of text",
    "resource_overrides": "an object",
}


class NoStageCommand(Refused):
    """A stage that says nothing about what is to be run."""

    code = "no_stage_command"

    def __init__(self, stages: Sequence[str]) -> None:
        self.why = (
            "nothing to run; expected parameters.command in the plan or a prepared "
            f"{stages[0]}/submission.json"
        )
        super().__init__(
            f"{', '.join(stages)}: {self.why}. Write the submission, or change the parameters by "
            "an amendment.",
            stages=list(stages),
        )


def has_command(root: Path, stage: Stage) -> bool:
    """Whether the stage says what is to be run."""
    prepared = root / stage.id / PREPARED
    return bool(stage.parameters.get("command")) or prepared.is_file()


def submission_of(
    root: Path, state: Workflow, stage: Stage, *, anew: bool = False
) -> dict[str, Any]:
    """Return the submission that the stage's definition describes, else the one prepared.

    ``anew``: what was prepared does not count, unless the stage has no command to describe another.
    Raises `NoStageCommand` if there is neither, and `SubmissionDrift` if what was prepared differs
    from the definition.
    """
    if not has_command(root, stage):
        raise NoStageCommand([stage.id])
    path = root / stage.id / PREPARED
    if not stage.parameters.get("command"):
        return submission.read(path)
    prepared = submission.read(path) if path.is_file() and not anew else None
    built = _described(state, stage, _beside(root, stage, prepared))
    if prepared is not None:
        submission.check_secrets(prepared.get("machine"))
        fields = differences(built, prepared)
        if fields:
            raise SubmissionDrift(stage.id, fields)
    return built


def _beside(root: Path, stage: Stage, prepared: dict[str, Any] | None) -> list[str]:
    """Return the files in the stage's folder that are sent though no field names them.

    A field that says what is sent says all of it, and so does a submission that was prepared.
    """
    if stage.parameters.get("forward_files") is not None:
        return []
    found = files_beside(root, stage)
    if prepared is None:
        return found
    tasks = [task for task in prepared.get("task_list", []) if isinstance(task, dict)]
    named = {path for task in tasks for path in task.get("forward_files") or []}
    return [path for path in found if path in named]


def _described(state: Workflow, stage: Stage, beside: Sequence[str] = ()) -> dict[str, Any]:
    """Return the submission as the stage's definition describes it, with files ``beside`` it.

    Raises UnusableProfile for a software environment that no plan may have.
    """
    given = {name: value for name, value in stage.parameters.items() if value is not None}
    shape.check_fields(given, _PARAMETERS, "parameters.")
    software = wanted(state.profile(stage), stage.parameters)
    wrong = next(problems(software), None)
    if wrong is not None:
        raise UnusableProfile("environment", wrong, software)
    backward = given.get("backward_files")
    job = submission.StageJob(
        stage=stage.id,
        command=given["command"],
        forward_files=(*given.get("forward_files", ()), *beside),
        backward_files=tuple(backward) if backward is not None else None,
        inputs=tuple(stage.inputs),
        outputs=tuple(stage.declared_outputs),
        resource_overrides=given.get("resource_overrides", {}),
        environment=software,
    )
    built = submission.build(job, state.profile(stage))
    resources = built["resources"]
    own = environment(stage.parameters)
    return {**built, "resources": {**resources, "envs": {**own, **resources.get("envs", {})}}}


def used_by(
    root: Path, state: Workflow, stage: Stage, inputs: Iterable[Input], sent: Iterable[Input]
) -> dict[str, Any]:
    """Return what an attempt rests on, as its record has it: the files read and the scripts."""
    files = [p.FileDigest(path=i.path, size=i.size, sha256=i.sha256) for i in (*inputs, *sent)]
    return {"inputs": files, "scripts": scripts_of(root, state, stage)}


def used_by_launched(root: Path, state: Workflow, stage: Stage, path: str) -> dict[str, Any]:
    """Return what an attempt rests on that somebody else launched by the submission at ``path``.

    It runs already: what is not there is left out.
    """
    needed = needed_by(state, stage)
    sent = [one for one in _sent_by(root, path) if one not in needed]
    inputs, others = (_there(root, paths) for paths in (needed, sent))
    submitted = _there(root, [path])
    known = used_by(root, state, stage, inputs, others)
    return {"submission_sha256": submitted[0].sha256 if submitted else "", **known}


def _there(root: Path, paths: Iterable[str]) -> list[Input]:
    return [one for path in paths if (root / path).exists() for one in digests(root, [path])]


def _sent_by(root: Path, path: str) -> list[str]:
    """Return the files below the root that a submission of somebody else sends."""
    found: list[str] = []
    with suppress(ReconcilerError, OSError, NotRegular, LookupError):
        own = {**submission.read(root / path), "machine": {"local_root": str(root)}}
        found.extend(os.path.relpath(one, root) for one in forwarded(own))
    return [one for one in found if not one.startswith("..")]


def launched_otherwise(root: Path, state: Workflow, stage: Stage, recorded: Attempt) -> list[str]:
    """Return the fields in which an attempt of somebody else's launch is not as defined.

    Raises `SubmissionChanged` where its submission is not the recorded one.
    """
    attempt = of_recorded(root, state.id, stage.id, recorded)
    place = root / recorded.submission
    if not (recorded.taken_over and stage.parameters.get("command") and place.is_file()):
        return []
    check_recorded(attempt, place)
    return computed_otherwise(_described(state, stage), submission.read(place))


def check_launched(root: Path, state: Workflow, stage: Stage) -> None:
    """Raise `SubmissionDrift` where the outputs come from an attempt that is not as defined."""
    if stage.source is not None:
        fields = launched_otherwise(root, state, stage, stage.source)
        if fields:
            raise SubmissionDrift(stage.id, fields, launched=stage.source.id)


def rests_of_imported(root: Path, state: Workflow) -> dict[str, dict[str, Any]]:
    """Return what each imported attempt under way rests on, by stage."""
    return {
        stage.id: used_by_launched(root, state, stage, stage.attempt.submission)
        for stage in state.stages.values()
        if stage.attempt is not None and stage.attempt.taken_over
    }
