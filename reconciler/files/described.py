"""What a stage's definition says is submitted, and what an attempt of it rests on."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any

from eventstore.private import NotRegular
from lifecycle.errors import NeedsConsent, Refused
from lifecycle.payload import models as p
from lifecycle.state.conditions import needed_by
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.sweeps.definition import DONE, VERDICTS, is_sweep, table_of
from lifecycle.sweeps.variables import environment
from lifecycle.words.rounds import VARIABLE, folder_of
from lifecycle.words.values import problems, wanted
from projections.files import progress_log, state_document
from reconciler.attempt.markers import MARKERS, digests
from reconciler.attempt.paths import PREPARED, WRAPPER, forwarded, of_recorded
from reconciler.context import Jobs
from reconciler.errors import ReconcilerError, UnusableProfile
from reconciler.submission import build as submission
from reconciler.submission.agreed import (
    SubmissionDrift,
    check_recorded,
    computed_otherwise,
    differences,
)
from reconciler.submission.away import BEFORE
from reconciler.submission.build import ERROR_LOG, FILE_NAME, OUTPUT_LOG
from reconciler.submission.fields import check_fields, placed
from service.consent.scripts import changed, data_left, judging, others, scripts_of
from service.root.disk import is_inside
from service.root.git import code_of
from service.root.root import MARKER
from wording import Worded


class ScriptsChanged(Worded, NeedsConsent):
    """Files that would run are not those that were agreed to."""

    code = "scripts_changed"
    text = (
        "{where}: session_config.pin holds the files that may run, and these are others now: "
        "{files:, }. Bring them back, or propose them as they are: `wfctl amend "
        "propose --set session_config.pin=scripts --reason …`; a person decides."
    )
    where: str
    files: Sequence[str]


def check_pinned(jobs: Jobs, state: Workflow, where: str) -> None:
    """Raise `ScriptsChanged` where a pinned file is another one, or one that runs is not pinned."""
    found = others(jobs.root, state)
    if found:
        raise ScriptsChanged(where, found)


class VerdictChanged(Worded, NeedsConsent):
    """What failed by one script would be judged by another one, which no person has agreed to."""

    code = "verdict_changed"
    text = (
        "{stage}: {attempt} did not pass by {files:, } as it was when that attempt "
        "started, and it is another file now. Bring it back, or have a person agree to it: "
        "`wfctl amend propose --set session_config.pin=scripts --reason …`."
    )
    stage: str
    attempt: str
    files: Sequence[str]


def check_verdict(jobs: Jobs, state: Workflow, stage: Stage) -> None:
    """Raise `VerdictChanged` where a script differs from that by which an attempt did not pass.

    One that a person agreed to since is as good: an approval holds the digests of all scripts.
    """
    if (found := other_verdict(jobs.root, state, stage)) is not None:
        raise found


def other_verdict(root: Path, state: Workflow, stage: Stage) -> VerdictChanged | None:
    """Return why the stage may not be judged by its scripts as they are now, if it may not."""
    refuted = next((one for one in reversed(stage.attempts) if _was_refused(one)), None)
    if refuted is None:
        return None
    own = judging(stage)
    found = changed(root, {path: sha for path, sha in refuted.scripts.items() if path in own})
    unasked = {path for path, now in found.items() if state.scripts.get(path) != now}
    unasked -= data_left(root, state) if unasked else set()
    return VerdictChanged(stage.id, refuted.id, sorted(unasked)) if unasked else None


def _was_refused(attempt: Attempt) -> bool:
    failed = (attempt.tasks or {}).get("failures", [])
    return attempt.is_refuted or any(str(f.get("because")).startswith(VERDICTS) for f in failed)


#: Bytes and files that are sent without being named.
_BYTES, _FILES = 10**8, 1000
#: What wfctl, DPDispatcher and the published wrapper keep in the folder themselves.
_NOT_THEIRS = frozenset(
    {PREPARED, WRAPPER, FILE_NAME, OUTPUT_LOG, ERROR_LOG, "dpdispatcher.log", *MARKERS}
)


class TooMuchBeside(Worded, Refused):
    """More lies in a stage's folder than is sent to a job without being named."""

    code = "too_much_beside"
    text = (
        "{stage}/ holds {files} files of {bytes} bytes that no field of the stage names; expected "
        f"at most {_FILES} files and {_BYTES} bytes. Name those that its command needs: `wfctl "
        "amend propose --stage {stage} --set 'parameters.forward_files=[\"run.py\"]' --reason "
        "TEXT`; [] sends none."
    )
    stage: str
    files: int
    bytes: int


def files_beside(root: Path, stage: Stage) -> list[str]:
    """Return the files that somebody put into the stage's folder, relative to it, as patterns.

    None of its outputs, of its inputs, or of what its attempts left. Hidden files stay where they
    are. Raises `TooMuchBeside`.
    """
    taken = [*stage.outputs, *stage.inputs, *stage.left_in_place]
    if is_sweep(stage.parameters):
        taken += [*table_of(stage.id), f"{stage.id}/{DONE}"]
    rounds = {attempt.round for attempt in stage.attempts}
    taken += [folder_of(stage.id, number) for number in rounds if number]
    above = tuple(os.path.normpath(path) for path in taken)
    found = [
        (path, size)
        for path, size in _below(root / stage.id)
        if not any(f"{stage.id}/{path}/".startswith(f"{one}/") for one in above)
    ]
    total = sum(size for _, size in found)
    if total > _BYTES or len(found) > _FILES:
        raise TooMuchBeside(stage.id, len(found), total)
    return [escape(path) for path, _ in found]


def _below(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield each file below a folder with its size; none that is hidden, or is a link elsewhere."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(place) / name
            own = str(path.relative_to(folder))
            # Bytes that are not UTF-8 have no place in an event.
            can_be_recorded = own.encode(errors="ignore").decode() == own
            if name.startswith(".") or own in _NOT_THEIRS or not can_be_recorded:
                continue
            if path.is_file() and is_inside(path, folder):
                yield own, path.stat().st_size


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
    # A field that says what is sent says all of it, and so does a submission that was prepared.
    unnamed = stage.parameters.get("forward_files") is None
    beside = files_beside(root, stage) if unnamed else []
    if prepared is None:
        return _described(state, stage, beside)
    tasks = [task for task in prepared.get("task_list", []) if isinstance(task, dict)]
    named = {path for task in tasks for path in task.get("forward_files") or []}
    built = _described(state, stage, [path for path in beside if path in named])
    submission.check_secrets(prepared.get("machine"))
    fields = differences(built, prepared)
    if fields:
        raise SubmissionDrift(stage.id, fields)
    return built


def submitted(
    root: Path, state: Workflow, stage: Stage, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a stage's submission as its attempts submit it: with places, time limit and round.

    The worker of a sweep ends its tasks itself.
    """
    placed_ = placed(given, stage.inputs)
    if not is_sweep(stage.parameters):
        placed_ = submission.limited(placed_, stage.parameters)
    return submission.with_variables(placed_, variables_of_round(root, state, stage))


def variables_of_round(root: Path, state: Workflow, stage: Stage) -> dict[str, str]:
    """Return what the jobs of a stage see of the round that they compute."""
    name = state.loop_of(stage.id)
    if name is None:
        return {}
    number = state.loops[name].round.number
    before = {BEFORE: str(root / folder_of(stage.id, number - 1))} if number > 1 else {}
    return {VARIABLE: str(number), **before}


def _described(state: Workflow, stage: Stage, beside: Sequence[str] = ()) -> dict[str, Any]:
    """Return the submission as the stage's definition describes it, with files ``beside`` it.

    Raises UnusableProfile for a software environment that no plan may have.
    """
    given = {name: value for name, value in stage.parameters.items() if value is not None}
    check_fields(given, _PARAMETERS, "parameters.")
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


#: What wfctl writes in a root.
_OWN = (MARKER, state_document.FILE_NAME, progress_log.FILE_NAME)


def used_by(
    root: Path, state: Workflow, stage: Stage, files: Sequence[p.FileDigest]
) -> dict[str, Any]:
    """Return what an attempt rests on, as its record has it: files read, scripts, their commit."""
    scripts = scripts_of(root, state, stage)
    made = (path for one in state.stages.values() for path in one.outputs)
    code = code_of(root, [*scripts, *(one.path for one in files)], [*_OWN, *made])
    return {"inputs": list(files), "scripts": scripts, "code": code}


def used_by_launched(root: Path, state: Workflow, stage: Stage, path: str) -> dict[str, Any]:
    """Return what an attempt rests on that somebody else launched by the submission at ``path``.

    It runs already: what is not there is left out.
    """
    needed, sent = needed_by(state, stage), list[str]()
    with suppress(ReconcilerError, OSError, NotRegular, LookupError):
        own = {**submission.read(root / path), "machine": {"local_root": str(root)}}
        sent.extend(os.path.relpath(one, root) for one in forwarded(own))
    others = [one for one in sent if not (one in needed or one.startswith(".."))]
    submitted = _there(root, [path])
    known = used_by(root, state, stage, _there(root, [*needed, *others]))
    return {"submission_sha256": submitted[0].sha256 if submitted else "", **known}


def _there(root: Path, paths: Iterable[str]) -> list[p.FileDigest]:
    return [one for path in paths if (root / path).exists() for one in digests(root, [path])]


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
    found = {
        stage.id: used_by_launched(root, state, stage, stage.attempt.submission)
        for stage in state.stages.values()
        if stage.attempt is not None and stage.attempt.taken_over
    }
    # Of which commit they were then nobody knows.
    return {id_: {k: v for k, v in one.items() if k != "code"} for id_, one in found.items()}
