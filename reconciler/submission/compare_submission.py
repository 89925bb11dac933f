"""Compare the approved definition of a stage with its prepared ``submission.json``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventstore.regular_files import read_regular
from lifecycle.errors import NeedsConsent
from reconciler.attempt.paths import ERROR_LOG, OUTPUT_LOG, AttemptPaths
from wording import TemplatedError

#: Values that mean the current folder. Each attempt replaces them with its own folder.
_CURRENT_FOLDER_NAMES = frozenset({None, "", ".", "./"})
_PLACES = frozenset({"local_root", "remote_root"})
_PARTS = frozenset({"machine", "resources", "task_list"})
_FILES = frozenset(
    {"forward_common_files", "backward_common_files", "forward_files", "backward_files"}
)
#: Log files that every job downloads, whether or not the submission names them.
_LOGS = frozenset({OUTPUT_LOG, ERROR_LOG})
#: Values that DPDispatcher uses for resources that a submission does not contain.
_DEFAULT_RESOURCES: Mapping[str, Any] = {
    "number_node": 1,
    "cpu_per_node": 1,
    "gpu_per_node": 0,
    "group_size": 1,
    "queue_name": "",
}


class SubmissionDrift(NeedsConsent):
    """A submission differs from the definition of its stage.

    The submission was prepared in the stage's folder. If ``launched`` is set, it belongs to this
    attempt, which was launched by others.
    """

    code = "submission_drift"

    def __init__(self, stage: str, fields: Sequence[str], launched: str | None = None) -> None:
        names = ", ".join(fields)
        amend = f"`wfctl amend propose --stage {stage} --set parameters…`"
        where, remedy = f"{stage}/submission.json", "Remove the file"
        if launched is not None:
            where = f"{stage}: the submission of {launched}"
            remedy = f"Remove the file, run `wfctl stage fail {stage} --error TEXT` and "
            remedy += "`wfctl stage retry {stage} --fix TEXT` to compute the stage as defined"
        super().__init__(
            f"{where} differs from the definition of the stage in {names}. {remedy}, or "
            f"propose the change ({amend}); a person decides.",
            stage=stage,
            fields=list(fields),
        )


class SubmissionChanged(TemplatedError, NeedsConsent):
    """The submission file of an attempt was changed after the attempt was recorded."""

    code = "submission_changed"
    text = (
        "the file {path} was changed. The attempt {attempt} of the stage {stage} was recorded with "
        "a file that has the SHA-256 {recorded}, but wfctl found {found}. wfctl does not submit "
        "the changed file. Find out who changed the file. To start a new attempt, run "
        "`wfctl stage fail {stage} --error TEXT`, "
        "then `wfctl stage retry {stage} --fix TEXT`."
    )
    untold = ("path",)
    stage: str
    attempt: str
    path: str
    recorded: str
    found: str


def check_submission_unchanged(attempt: AttemptPaths, place: Path | None = None) -> None:
    """Raise `SubmissionChanged` if an attempt's submission file differs from its digest.

    The digest is in the log. ``place`` is the path of the file if others launched the attempt.
    """
    place = place or attempt.submission
    found = sha256(read_regular(place)).hexdigest() if attempt.sha256 else ""
    if found != attempt.sha256:
        path = str(place.relative_to(attempt.root))
        raise SubmissionChanged(attempt.stage, attempt.id, path, attempt.sha256, found)


def find_differences(built: Mapping[str, Any], prepared: Mapping[str, Any]) -> list[str]:
    """Return the fields in which a prepared submission differs from its stage.

    ``built`` is the submission that the definition of the stage describes. Fields that the prepared
    submission does not contain are ignored.
    """
    top = {name: value for name, value in prepared.items() if name not in _PARTS}
    machine = prepared.get("machine")
    same = machine is None or _has_equal_fields(
        _normalize_reference(built["machine"]), _normalize_reference(machine), _PLACES
    )
    unlike = [*_find_unequal_fields(built, top), *([] if same else ["machine"])]
    return [
        *unlike,
        *_find_part_differences(built, prepared.get("resources"), prepared.get("task_list")),
    ]


def find_computation_differences(
    built: Mapping[str, Any], launched: Mapping[str, Any]
) -> list[str]:
    """Return the fields in which a job launched by others differs from its stage.

    Only the resources and commands are compared. The job already runs, so the transfer of its files
    no longer matters.
    """
    resources, tasks = launched.get("resources"), launched.get("task_list")
    if isinstance(resources, dict):
        named = built["resources"]
        resources = {name: value for name, value in resources.items() if name in named}
    if isinstance(tasks, list):
        tasks = [{name: task[name] for name in ("command",) if name in task} for task in tasks]
    return list(_find_part_differences(built, resources, tasks))


def _find_unequal_fields(agreed: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of fields in ``given`` whose values differ from the approved values."""
    for name, value in given.items():
        if name == "work_base":
            same = value in _CURRENT_FOLDER_NAMES
        elif name in _FILES:
            same = set(agreed.get(name) or ()) - _LOGS == set(value or ()) - _LOGS
        else:
            same = value == agreed.get(name)
        if not same:
            yield name


def _find_part_differences(built: Mapping[str, Any], resources: Any, tasks: Any) -> Iterator[str]:
    if isinstance(resources, dict):
        yield from _find_resource_differences(built["resources"], resources)
    elif resources is not None:
        yield "resources"
    agreed = built["task_list"]
    if isinstance(tasks, list) and len(tasks) == len(agreed):
        for own, given in zip(agreed, tasks, strict=True):
            for name in _find_unequal_fields(own, given):
                yield "parameters.command" if name == "command" else f"task_list.{name}"
    elif tasks is not None:
        yield "task_list"


def _normalize_reference(machine: Any) -> Any:
    """Return the description of a machine, with the path of its file in a uniform form."""
    path = machine.get("$ref") if isinstance(machine, Mapping) else None
    return {**machine, "$ref": os.path.normpath(path)} if isinstance(path, str) else machine


def _find_resource_differences(
    built: Mapping[str, Any], prepared: Mapping[str, Any]
) -> Iterator[str]:
    for name, value in prepared.items():
        if name == "envs":
            same = isinstance(value, dict) and _has_equal_fields(built.get("envs", {}), value)
        else:
            unsaid = name not in built and value in (None, [], {})
            same = unsaid or value == built.get(name, _DEFAULT_RESOURCES.get(name))
        if not same:
            yield f"resources.{name}"


def _has_equal_fields(
    built: Mapping[str, Any], prepared: Any, places: frozenset[str] = frozenset()
) -> bool:
    """Return whether all prepared fields have the approved values.

    The fields in ``places`` contain local paths and are not compared.
    """
    return isinstance(prepared, dict) and all(
        value == built.get(name) or (name in places and value in _CURRENT_FOLDER_NAMES)
        for name, value in prepared.items()
    )
