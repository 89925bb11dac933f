"""Describe the complete method of each stage, so that a reader can repeat the computation."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from lifecycle.state.workflow import Attempt, Stage
from lifecycle.sweeps.definition import MAP
from lifecycle.sweeps.work import build_work
from projections.files.facts import Fields, WorkflowFacts
from projections.words.result_origin import SET, describe_code_version, list_recorded_variables

#: Parameters to list first in a report, because they define the commands of a stage.
_FIRST = ("command", MAP, "verify")
Named = list[tuple[str, str]]
"""Names and complete values: strings unchanged, all other values as JSON."""


class MethodFile(NamedTuple):
    """A file that a stage read, ran or wrote. Its size and SHA-256 may be unknown."""

    role: str
    path: str
    size: str
    sha256: str


class StageMethod(NamedTuple):
    """A description of how a stage was computed.

    It describes the attempt that produced the outputs, or the stage's definition if there are no
    outputs. ``place`` is the host and folder of the command, or empty without a command. ``ran``
    contains further facts about the run.
    """

    stage: Stage
    place: str
    parameters: Named
    files: list[MethodFile]
    ran: Named


class StageEnvironment(NamedTuple):
    """The software environment that several stages share.

    ``names`` are the names of variables whose values are not in the log.
    """

    stages: list[str]
    values: Named
    names: list[str]
    sha256: str


class Method(NamedTuple):
    """The method of a workflow. ``session`` is the environment of its last session."""

    stages: list[StageMethod]
    environments: list[StageEnvironment]
    session: Named

    @property
    def said(self) -> str:
        """A text that explains how wfctl runs the commands."""
        return (
            "A command is run by bash, with copies of its inputs at their paths below "
            "$WFCTL_ROOT, and sees a parameter NAME as $WFCTL_PARAM_NAME; verify is run in the "
            "root of the workflow. Digests are SHA-256."
        )


def describe_method(facts: WorkflowFacts) -> Method:
    """Return a description of how each stage was computed, in the order of the plan."""
    stages = [_of_stage(facts, stage) for stage in facts.state.stages.values()]
    said = (one.environment for one in reversed(facts.sessions) if one.environment)
    return Method(stages, _group_environments(facts), convert_values_to_text(next(said, {})))


def convert_values_to_text(values: Fields) -> Named:
    """Return names and values as strings. Values that are not strings are written as JSON."""
    return [
        (str(name), value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        for name, value in values.items()
    ]


def _of_stage(facts: WorkflowFacts, stage: Stage) -> StageMethod:
    attempt = stage.source
    given = facts.result(stage).parameters(stage, attempt)
    first = {name: given[name] for name in _FIRST if name in given}
    place = build_work(stage.id, given).place_name if "command" in given else ""
    return StageMethod(
        stage,
        place,
        convert_values_to_text(first | given),
        list(_list_files(stage, attempt)),
        _describe_run(facts, stage),
    )


def _list_files(stage: Stage, attempt: Attempt | None) -> Iterator[MethodFile]:
    """Yield each file of an attempt once, or the planned inputs if there is no attempt.

    Scripts come first. A script that is also an input is not repeated.
    """
    scripts = attempt.scripts if attempt is not None else {}
    yield from (MethodFile("script", path, "", digest) for path, digest in scripts.items())
    if attempt is None:
        yield from (MethodFile("input", path, "", "") for path in stage.inputs)
        return
    read = [one for one in attempt.inputs if one["path"] not in scripts]
    yield from _build_files(f"continued from {attempt.carried_from}", attempt.carried)
    yield from _build_files("input", read)
    beside = {path: one for path, one in (attempt.beside or {}).items() if path not in scripts}
    yield from (MethodFile("next to a script", path, "", one) for path, one in beside.items())
    yield from _build_files("output", stage.results)


def _build_files(role: str, files: Sequence[Fields]) -> Iterator[MethodFile]:
    for one in files:
        path, size, digest = (str(one.get(name, "")) for name in ("path", "size", "sha256"))
        yield MethodFile(role, path, size, digest)


def _describe_run(facts: WorkflowFacts, stage: Stage) -> Named:
    """Return the backend, host, commit and program versions of the run behind the outputs.

    Unknown values are omitted.
    """
    state, attempt = facts.state, stage.source
    backend = stage.backend or state.default_backend
    told: dict[str, Any] = {"backend": backend, "profile": state.profile(stage) or None}
    if attempt is not None:
        told |= {"attempt": attempt.id, "host": attempt.host, "mode": attempt.mode}
        told |= {"commit": describe_code_version(attempt.code) if attempt.code else None}
        told |= {"DPDispatcher": attempt.dpdispatcher_version}
        told |= facts.result(stage).versions.get(attempt.id, {})
    return convert_values_to_text(
        {name: value for name, value in told.items() if value is not None}
    )


def _group_environments(facts: WorkflowFacts) -> list[StageEnvironment]:
    found: dict[str, StageEnvironment] = {}
    for stage in facts.state.stages.values():
        known = stage.source.environment if stage.source is not None else None
        if known is None:
            continue
        every = list_recorded_variables(known)
        values = [one for one in every.items() if one[1] != SET]
        hidden = [name for name, value in every.items() if value == SET]
        fresh = StageEnvironment([], values, hidden, known["sha256"])
        found.setdefault(known["sha256"], fresh).stages.append(stage.id)
    return list(found.values())
