"""Build the submission that a stage's definition describes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from pathlib import Path
from typing import Any

from lifecycle.errors import NeedsConsent, Refused
from lifecycle.state.requested_resources import compute_next_request, get_time_limit
from lifecycle.state.workflow import Attempt, Stage, Workflow
from lifecycle.sweeps.definition import is_sweep
from lifecycle.sweeps.variables import command_variables
from lifecycle.words.environments import find_environment_problems, merge_environments
from lifecycle.words.rounds import VARIABLE, stage_folder_of_round
from lifecycle.words.scheduler_queries import EXPECTED, QUERY_INTERVAL, parse_query_interval
from reconciler.attempt.markers import MARKERS
from reconciler.attempt.paths import (
    ERROR_LOG,
    OUTPUT_LOG,
    PREPARED,
    WRAPPER,
    recorded_attempt_paths,
)
from reconciler.errors import ReconcilerError, UnusableProfile
from reconciler.submission import build as submission
from reconciler.submission.build import FILE_NAME
from reconciler.submission.compare_submission import (
    SubmissionDrift,
    check_submission_unchanged,
    find_computation_differences,
    find_differences,
)
from reconciler.submission.fields import add_path_variables, check_fields
from reconciler.submission.requested_resources import add_requested_resources
from reconciler.submission.transferred_files import BEFORE_VARIABLE
from service.root.folder_entries import is_file
from service.root.paths_within_root import is_inside
from wording import TemplatedError

#: Maximum total size in bytes, and maximum number, of files that are sent to a job although no
#: field names them.
_MAX_BYTES, _MAX_FILES = 10**8, 1000
#: Files that wfctl, DPDispatcher or a wrapper script writes into the stage's folder. They are not
#: sent to jobs.
_WFCTL_FILES = frozenset(
    {PREPARED, WRAPPER, FILE_NAME, OUTPUT_LOG, ERROR_LOG, "dpdispatcher.log", *MARKERS}
)


class TooMuchBeside(TemplatedError, Refused):
    """The stage's folder contains too many files or bytes to send to a job."""

    code = "too_much_beside"
    text = (
        "{stage}/ contains {files} files of {bytes} bytes that no field of the stage names; wfctl "
        f"sends at most {_MAX_FILES} unnamed files and {_MAX_BYTES} bytes to a job. Name the files "
        "that the command needs: `wfctl amend propose --stage {stage} --set "
        "'parameters.forward_files=[\"run.py\"]' --reason TEXT`; [] sends no file."
    )
    stage: str
    files: int
    bytes: int


def find_extra_stage_files(root: Path, stage: Stage) -> list[str]:
    """Return the files that a user put into the stage's folder and that a job needs.

    The paths are patterns relative to that folder. Outputs, inputs, hidden files and leftover files
    of attempts are not included. Raises `TooMuchBeside` if the files exceed a limit.
    """
    taken = [*stage.outputs, *stage.inputs, *stage.left_in_place]
    taken += [*stage.work.tables, *stage.work.task_folders]
    rounds = {attempt.round for attempt in stage.attempts}
    taken += [stage_folder_of_round(stage.id, number) for number in rounds if number]
    above = tuple(os.path.normpath(path) for path in taken)
    found = [
        (path, size)
        for path, size in _walk_visible_files(root / stage.id)
        if not any(f"{stage.id}/{path}/".startswith(f"{one}/") for one in above)
    ]
    total = sum(size for _, size in found)
    if total > _MAX_BYTES or len(found) > _MAX_FILES:
        raise TooMuchBeside(stage.id, len(found), total)
    return [escape(path) for path, _ in found]


def _walk_visible_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield path and size of each file below a folder that may be sent to a job.

    Omits hidden files, compiled modules, files of wfctl, and links out of the folder.
    """
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(one for one in folders if not one.startswith((".", "__pycache__")))
        for name in sorted(names):
            path = Path(place) / name
            own = str(path.relative_to(folder))
            # Sent files are recorded in an event, which cannot contain a name that is not UTF-8.
            can_be_recorded = own.encode(errors="ignore").decode() == own
            if name.startswith(".") or own in _WFCTL_FILES or not can_be_recorded:
                continue
            if is_file(path) and is_inside(path, folder):
                yield own, path.stat().st_size


_PARAMETERS = {
    "command": "text",
    "forward_files": "a list of strings",
    "backward_files": "a list of strings",
    "resource_overrides": "an object",
}


class NoStageCommand(Refused):
    """The stage has no command."""

    code = "no_stage_command"

    def __init__(self, stages: Sequence[str]) -> None:
        self.why = (
            "the stage has no command; expected parameters.command in the plan or a prepared "
            f"{stages[0]}/submission.json"
        )
        super().__init__(
            f"{', '.join(stages)}: {self.why}. Write the submission, or propose a "
            f"command: `wfctl amend propose --stage {stages[0]} --set parameters.command=COMMAND "
            "--reason TEXT`.",
            stages=list(stages),
        )


def has_command_or_submission(root: Path, stage: Stage) -> bool:
    """Return whether the stage can run: it defines a command or has a prepared submission."""
    prepared = root / stage.id / PREPARED
    return bool(stage.parameters.get("command")) or is_file(prepared)


def get_stage_submission(
    root: Path, state: Workflow, stage: Stage, *, anew: bool = False
) -> dict[str, Any]:
    """Return the submission of a stage, built from its definition.

    A stage without a command uses the prepared submission.json in its folder. With ``anew``, the
    prepared file of a stage with a command is ignored. Raises `NoStageCommand` if neither exists,
    and `SubmissionDrift` if the prepared file differs from the definition.
    """
    if not has_command_or_submission(root, stage):
        raise NoStageCommand([stage.id])
    path = root / stage.id / PREPARED
    if not stage.parameters.get("command"):
        return submission.read_submission(path)
    prepared = submission.read_submission(path) if is_file(path) and not anew else None
    # If the stage has a field `forward_files`, only the files in that field are sent.
    unnamed = stage.parameters.get("forward_files") is None
    beside = find_extra_stage_files(root, stage) if unnamed else []
    if prepared is None:
        return _build_described_submission(state, stage, beside)
    tasks = [task for task in prepared.get("task_list", []) if isinstance(task, dict)]
    named = {path for task in tasks for path in task.get("forward_files") or []}
    built = _build_described_submission(state, stage, [path for path in beside if path in named])
    submission.check_secrets(prepared.get("machine"))
    fields = find_differences(built, prepared)
    if fields:
        raise SubmissionDrift(stage.id, fields)
    return built


def build_attempt_submission(
    root: Path, state: Workflow, stage: Stage, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a stage's submission with everything that an attempt needs.

    This adds environment variables with paths and the current round, the requested resources, the
    time limit, and the interval between scheduler queries, which `build_attempt_copy` removes. For
    a sweep the time limit is omitted, because its worker process applies it to each task. Raises
    UnusableProfile if the interval is invalid.
    """
    interval = parse_query_interval(state.profile(stage))
    if interval is None:
        raise UnusableProfile(QUERY_INTERVAL, EXPECTED, state.profile(stage)[QUERY_INTERVAL])
    placed_ = {**add_path_variables(given, stage.inputs), QUERY_INTERVAL: interval}
    if not is_sweep(stage.parameters):
        placed_ = submission.add_time_limit(placed_, get_time_limit(state, stage))
    placed_ = add_requested_resources(placed_, compute_next_request(state, stage))
    return submission.add_variables(placed_, variables_of_round(root, state, stage))


def variables_of_round(root: Path, state: Workflow, stage: Stage) -> dict[str, str]:
    """Return environment variables for a stage's jobs that describe the current round.

    They contain the number of the round and the folder of the previous round. Returns an empty dict
    if the stage is in no loop.
    """
    name = state.loop_of(stage.id)
    if name is None:
        return {}
    number = state.loops[name].round.number
    before = (
        {BEFORE_VARIABLE: str(root / stage_folder_of_round(stage.id, number - 1))}
        if number > 1
        else {}
    )
    return {VARIABLE: str(number), **before}


def _build_described_submission(
    state: Workflow, stage: Stage, beside: Sequence[str] = ()
) -> dict[str, Any]:
    """Build the submission that the stage's definition describes.

    ``beside`` contains additional files to send. Raises UnusableProfile if the definition contains
    a software environment that is not allowed.
    """
    given = {name: value for name, value in stage.parameters.items() if value is not None}
    check_fields(given, _PARAMETERS, "parameters.")
    software = merge_environments(state.profile(stage), stage.parameters)
    wrong = next(find_environment_problems(software), None)
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
    built = submission.build_submission(job, state.profile(stage))
    resources = built["resources"]
    own = command_variables(stage.work)
    return {**built, "resources": {**resources, "envs": {**own, **resources.get("envs", {})}}}


def find_launch_differences(
    root: Path, state: Workflow, stage: Stage, recorded: Attempt
) -> list[str]:
    """Return the fields in which a job launched by others differs from its definition.

    Returns an empty list if no comparison is needed. Raises `SubmissionChanged` if the submission
    file was changed after the launch was recorded.
    """
    attempt = recorded_attempt_paths(root, state.id, stage.id, recorded)
    place = root / recorded.submission
    if not (recorded.taken_over and stage.parameters.get("command") and is_file(place)):
        return []
    check_submission_unchanged(attempt, place)
    return find_computation_differences(
        _build_described_submission(state, stage), submission.read_submission(place)
    )


def explain_launch_differences(root: Path, state: Workflow, stage: Stage) -> list[str]:
    """Return the reasons why the outputs of a job launched by others must not be used.

    The reasons are the fields in which the job differs from the stage's definition. If a comparison
    is impossible, the only reason is a sentence that explains why. An empty list means that the
    outputs may be used.
    """
    if stage.source is None or not stage.source.taken_over:
        return []
    try:
        return find_launch_differences(root, state, stage, stage.source)
    except (NeedsConsent, ReconcilerError, OSError) as error:
        return [str(error)]


def check_foreign_job_definition(root: Path, state: Workflow, stage: Stage) -> None:
    """Raise `SubmissionDrift` if the job that wrote the outputs differs from the stage.

    Only a job that was launched by others is compared with the definition of the stage.
    """
    if stage.source is not None:
        fields = find_launch_differences(root, state, stage, stage.source)
        if fields:
            raise SubmissionDrift(stage.id, fields, launched=stage.source.id)
