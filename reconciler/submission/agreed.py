"""What was agreed against what was prepared: a stage's definition and its ``submission.json``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from eventstore.private import read_regular
from lifecycle.errors import NeedsConsent
from reconciler.attempt.paths import AttemptPaths
from reconciler.submission.build import ERROR_LOG, OUTPUT_LOG
from wording import Worded

#: Names of folders that mean the current one; an attempt gets places of its own.
_HERE = frozenset({None, "", ".", "./"})
_PLACES = frozenset({"local_root", "remote_root"})
_PARTS = frozenset({"machine", "resources", "task_list"})
_FILES = frozenset(
    {"forward_common_files", "backward_common_files", "forward_files", "backward_files"}
)
#: Files that every job brings back, whether they are named or not.
_LOGS = frozenset({OUTPUT_LOG, ERROR_LOG})
#: What DPDispatcher takes if nothing is said.
_USUAL: Mapping[str, Any] = {
    "number_node": 1,
    "cpu_per_node": 1,
    "gpu_per_node": 0,
    "group_size": 1,
    "queue_name": "",
}


class SubmissionDrift(NeedsConsent):
    """A submission that says something else than the definition of its stage.

    It was prepared, or ``launched`` is the attempt that somebody launched by it.
    """

    code = "submission_drift"

    def __init__(self, stage: str, fields: Sequence[str], launched: str | None = None) -> None:
        names = ", ".join(fields)
        amend = f"`wfctl amend propose --stage {stage} --set parameters…`"
        where, remedy = f"{stage}/submission.json", "Take the file away"
        if launched is not None:
            where = f"{stage}: the submission that {launched} was launched by"
            remedy = f"Take the file away and have `wfctl stage fail {stage} --error TEXT`, then "
            remedy += "`stage retry` compute it as defined"
        super().__init__(
            f"{where}: expected what the stage's definition says, found something else in {names}. "
            f"{remedy}, or propose the change ({amend}); a person decides.",
            stage=stage,
            fields=list(fields),
        )


class SubmissionChanged(Worded, NeedsConsent):
    """An attempt's submission that is not the one that was recorded."""

    code = "submission_changed"
    text = (
        "{path}: expected the submission that was recorded for {stage} {attempt} (SHA-256 "
        "{recorded}), found another one ({found}). It is not submitted. See who changed it; "
        "`wfctl stage fail {stage} --error TEXT`, then `stage retry`, begins a new attempt."
    )
    untold = ("path",)
    stage: str
    attempt: str
    path: str
    recorded: str
    found: str


def check_recorded(attempt: AttemptPaths, place: Path | None = None) -> None:
    """Raise `SubmissionChanged` where what was submitted is not what the log names, if it does.

    ``place``: where it lies, of an attempt of somebody else's launch.
    """
    place = place or attempt.submission
    found = sha256(read_regular(place)).hexdigest() if attempt.sha256 else ""
    if found != attempt.sha256:
        path = str(place.relative_to(attempt.root))
        raise SubmissionChanged(attempt.stage, attempt.id, path, attempt.sha256, found)


def differences(built: Mapping[str, Any], prepared: Mapping[str, Any]) -> list[str]:
    """Return the fields in which a prepared submission says otherwise; what it leaves out agrees.

    ``built`` is the submission that the definition describes.
    """
    top = {name: value for name, value in prepared.items() if name not in _PARTS}
    machine = prepared.get("machine")
    same = machine is None or _agrees(_plain(built["machine"]), _plain(machine), _PLACES)
    unlike = [*_unlike(built, top), *([] if same else ["machine"])]
    return [*unlike, *_in_parts(built, prepared.get("resources"), prepared.get("task_list"))]


def computed_otherwise(built: Mapping[str, Any], launched: Mapping[str, Any]) -> list[str]:
    """Return the fields in which what somebody launched is not what the definition describes.

    It runs already: how it is sent and brought back, and what no definition names, is theirs.
    """
    resources, tasks = launched.get("resources"), launched.get("task_list")
    if isinstance(resources, dict):
        named = built["resources"]
        resources = {name: value for name, value in resources.items() if name in named}
    if isinstance(tasks, list):
        tasks = [{name: task[name] for name in ("command",) if name in task} for task in tasks]
    return list(_in_parts(built, resources, tasks))


def _unlike(agreed: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[str]:
    """Yield the fields that are given and are not as agreed."""
    for name, value in given.items():
        if name == "work_base":
            same = value in _HERE
        elif name in _FILES:
            same = set(agreed.get(name) or ()) - _LOGS == set(value or ()) - _LOGS
        else:
            same = value == agreed.get(name)
        if not same:
            yield name


def _in_parts(built: Mapping[str, Any], resources: Any, tasks: Any) -> Iterator[str]:
    if isinstance(resources, dict):
        yield from _in_resources(built["resources"], resources)
    elif resources is not None:
        yield "resources"
    agreed = built["task_list"]
    if isinstance(tasks, list) and len(tasks) == len(agreed):
        for own, given in zip(agreed, tasks, strict=True):
            for name in _unlike(own, given):
                yield "parameters.command" if name == "command" else f"task_list.{name}"
    elif tasks is not None:
        yield "task_list"


def _plain(machine: Any) -> Any:
    """Return a machine whose file is named without steps that are taken back."""
    path = machine.get("$ref") if isinstance(machine, Mapping) else None
    return {**machine, "$ref": os.path.normpath(path)} if isinstance(path, str) else machine


def _in_resources(built: Mapping[str, Any], prepared: Mapping[str, Any]) -> Iterator[str]:
    for name, value in prepared.items():
        if name == "envs":
            same = isinstance(value, dict) and _agrees(built.get("envs", {}), value)
        else:
            unsaid = name not in built and value in (None, [], {})
            same = unsaid or value == built.get(name, _USUAL.get(name))
        if not same:
            yield f"resources.{name}"


def _agrees(built: Mapping[str, Any], prepared: Any, places: frozenset[str] = frozenset()) -> bool:
    """Whether every field that is given is what was agreed; a place that is here says nothing."""
    return isinstance(prepared, dict) and all(
        value == built.get(name) or (name in places and value in _HERE)
        for name, value in prepared.items()
    )
