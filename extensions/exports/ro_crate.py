"""The format ``ro-crate``: metadata of a Provenance Run Crate 0.6 (RO-Crate 1.3).

The main workflow of the crate is ``workflow-state.json`` in its folder. Each attempt of a stage is
an action. Each round of an optimisation loop is an action too; its object is the results of the
previous round. An amendment (plan change) is an action whose agent is the person who decided.
Stages that never ran are left out, and so are values that the log does not contain. A file in the
crate is identified by its path, any other file by its path and its digest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain
from mimetypes import MimeTypes
from typing import Any
from urllib.parse import quote

from eventstore.event import Actor
from extensions.exports.formats import ExportSource
from extensions.exports.provenance import (
    Beginning,
    File,
    LoopRound,
    PlanChange,
    Run,
    drop_end_before_start,
    iterate_provenance,
)
from lifecycle.words.metrics import parse_valid_metrics
from projections.files.state_document import FILE_NAME
from projections.files.summary import is_figure
from projections.words.result_origin import describe_code_version
from projections.words.text import percent_encode, workflow_uri

FILE = "ro-crate-metadata.json"
_CONTEXT = "https://w3id.org/ro/crate/1.3/context"
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.6": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.6": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.6": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.1": "Workflow RO-Crate",
}
_ENGINE, _RUN, _LANGUAGE = "urn:wfctl:engine", "#workflow-run", "urn:wfctl:staged-workflow"
_COMPLETED = "http://schema.org/CompletedActionStatus"
_FAILED = "http://schema.org/FailedActionStatus"
#: Status of an amendment → type and status of its action in the crate.
_CHANGES = {
    "approved": ("UpdateAction", _COMPLETED),
    "rejected": ("RejectAction", _COMPLETED),
    "proposed": ("SuggestAction", None),
}
#: Stands for the version of a program that the log does not contain, because the profile requires a
#: version.
_UNKNOWN = "unknown"
_NO_LICENSE = "No licence was stated; ask the authors."

#: Do not read the media types of the operating system, so that a file has the same type on every
#: machine.
_MEDIA = MimeTypes()

Entity = dict[str, Any]


def export_crate(source: ExportSource) -> Iterator[str]:
    """Yield the crate's metadata as JSON, entity by entity, the root entity last.

    As RO-Crate requires, unknown values are left out, and a list with one item is replaced by the
    item.
    """
    before = "["
    yield f'{{"@context": {json.dumps(_CONTEXT)}, "@graph": '
    for entity in _Crate(source).entities():
        known = {key: value for key, value in entity.items() if value not in (None, [], {})}
        compact = {k: v[0] if isinstance(v, list) and len(v) == 1 else v for k, v in known.items()}
        yield f"{before}\n{json.dumps(compact, ensure_ascii=False)}"
        before = ","
    yield "\n]}\n"


class _Crate:
    """Describes each thing once, and collects the ids for the lists in the last entities."""

    def __init__(self, source: ExportSource) -> None:
        self._source = source
        self._state = source.state()
        self._places = {id_: str(n) for n, id_ in enumerate(self._state.stages, 1)}
        self._known: set[str] = set()
        self._listed: dict[str, list[Entity]] = {
            name: [] for name in ("parts", "mentions", "tools", "steps", "controls")
        }
        self._began = ""

    def entities(self) -> Iterator[Entity]:
        """Yield all entities of the crate."""
        conforms = ["https://w3id.org/ro/crate/1.3", list(_PROFILES)[-1]]
        about = {
            "about": _build_reference("./"),
            "conformsTo": list(map(_build_reference, conforms)),
        }
        yield {"@id": FILE, "@type": "CreativeWork", **about}
        for told in iterate_provenance(self._source.steps()):
            match told:
                case Beginning():
                    yield from self._describe_beginning(told)
                case Run():
                    yield from self._describe_run(told)
                case PlanChange():
                    yield from self._describe_change(told)
                case LoopRound():
                    yield from self._describe_round(told)
        yield from self._describe_workflow()
        yield from self._describe_root()

    def _register_id(self, id_: str, *lists: str) -> bool:
        """Return whether an id is new in the crate, and remember it.

        A new id is also added to the given lists.
        """
        if id_ in self._known:
            return False
        self._known.add(id_)
        for name in lists:
            self._listed[name].append(_build_reference(id_))
        return True

    def _describe_beginning(self, told: Beginning) -> Iterator[Entity]:
        self._began = told.at
        self._register_id("#beginning", "mentions")
        yield from self._describe_agent(told.actor)
        yield _build_entity(
            "#beginning",
            "CreateAction",
            f"beginning of {self._state.id}",
            instrument=_build_reference(_ENGINE),
            result=_build_reference(FILE_NAME),
            **_format_times(told.at, told.at),
            actionStatus=_COMPLETED,
            **_describe_actor_role(told.actor),
        )

    def _describe_run(self, run: Run) -> Iterator[Entity]:
        yield from self._describe_tool(run)
        action, control = f"#run-{percent_encode(run.id)}", f"#control-{percent_encode(run.id)}"
        parameters = list(_describe_parameters(run))
        numbers = [_describe_number(run, one) for one in run.metrics]
        yield from (*parameters, *chain.from_iterable(numbers))
        yield from self._describe_agent(run.actor)
        for file in (*run.inputs, *run.outputs):
            yield from self._describe_file(file)
        self._register_id(action, "mentions")
        on = f", on {run.host}" if run.host else ""
        on += f", commit {describe_code_version(run.code)}" if run.code else ""
        yield _build_entity(
            action,
            "CreateAction",
            f"{run.name}: {run.attempt or 'run'}",
            description=f"{run.id} of {self._state.id}, by version {run.plan} of its plan{on}",
            instrument=_build_reference(self._tool_id(run.stage)),
            **_format_times(run.start, run.end),
            object=[
                *map(self._content_reference, run.inputs),
                *(_build_reference(p["@id"]) for p in parameters),
            ],
            result=[*map(self._content_reference, run.outputs), *_build_number_references(run)],
            actionStatus={None: None, True: _COMPLETED, False: _FAILED}[run.completed],
            error=run.error,
            **_describe_actor_role(run.actor),
        )
        self._register_id(control, "controls")
        by, of = (
            {"instrument": _build_reference(f"#step-{run.stage}")},
            {"object": _build_reference(action)},
        )
        yield _build_entity(control, "ControlAction", f"orchestration of {run.id}", **by, **of)

    def _describe_round(self, one: LoopRound) -> Iterator[Entity]:
        """Yield the entities of a loop's round: its points, its results and its attempts."""
        number, tool = one.told.number, f"{workflow_uri(self._state.id)}:rounds:{one.loop}"
        name, place = f"round {number} of {one.loop}", f"{percent_encode(one.loop)}-{number}"
        yield from self._describe_loop(one.loop, tool)
        yield from self._describe_agent(one.proposer)
        points = f"#points-{place}"
        if one.told.points:
            value = json.dumps(one.told.points, ensure_ascii=False)
            yield _build_entity(points, "PropertyValue", f"points of {name}", value=value)
        before = one.before.result_runs if one.before else []
        action, asked = f"#round-{place}", self._tool_id(one.asked or "")
        chosen = (
            {"participant": _build_reference(asked)}
            if asked in self._known
            else _describe_actor_role(one.proposer)
        )
        self._register_id(action, "mentions")
        yield _build_entity(
            action,
            "CreateAction",
            name,
            description=one.told.reason,
            instrument=_build_reference(tool),
            **_format_times(one.start, one.told.ended_at),
            object=[
                *map(self._content_reference, one.files),
                *([_build_reference(points)] if one.told.points else []),
                *chain.from_iterable(map(_build_number_references, before)),
            ],
            result=[*chain.from_iterable(map(_build_number_references, one.result_runs))],
            actionStatus=_COMPLETED if one.told.ended_at else None,
            **chosen,
        )
        if one.runs:
            control = f"#orchestration-{place}"
            self._register_id(control, "mentions")
            controls = [_build_reference(f"#control-{percent_encode(run.id)}") for run in one.runs]
            of = {
                "instrument": _build_reference(_ENGINE),
                "object": controls,
                "result": _build_reference(action),
            }
            yield _build_entity(control, "OrganizeAction", f"orchestration of {name}", **of)

    def _describe_loop(self, name: str, tool: str) -> Iterator[Entity]:
        """Yield the entity of an optimisation loop, which contains its stages' tools."""
        if self._register_id(tool, "tools"):
            loop = self._state.loop(name)
            ends = [*map(str, loop.until), f"at most {loop.at_most} rounds"]
            tools = [one for one in map(self._tool_id, loop.stages) if one in self._known]
            of = {"description": "; ".join(ends), "hasPart": list(map(_build_reference, tools))}
            yield {**_build_software(tool, f"loop {name}", str(self._state.version)), **of}

    def _describe_tool(self, run: Run) -> Iterator[Entity]:
        """Yield the tool and the step of a stage, described by its command line."""
        tool, step = self._tool_id(run.stage), f"#step-{run.stage}"
        if self._register_id(tool, "tools"):
            self._register_id(step, "steps")
            command = run.parameters.get("command")
            said = f"command: {command}" if isinstance(command, str) else None
            version = str(run.plan)
            yield _build_software(tool, run.name, version, description=said)
            place = self._places.get(run.stage)
            yield _build_entity(
                step, "HowToStep", run.name, position=place, workExample=_build_reference(tool)
            )

    def _tool_id(self, stage: str) -> str:
        return f"{workflow_uri(self._state.id)}:{stage}"

    def _describe_file(self, file: File) -> Iterator[Entity]:
        id_ = self._content_reference(file)["@id"]
        if self._register_id(id_, "parts"):
            size, kind = str(file.size), _MEDIA.guess_type(file.path)[0]
            about = {"contentSize": size, "sha256": file.sha256, "encodingFormat": kind}
            types = ["File", "ImageObject"] if is_figure(file.path) else "File"
            yield _build_entity(id_, types, file.path, **about)

    def _content_reference(self, file: File) -> dict[str, str]:
        """Return the reference to a file.

        A file in the crate is identified by its path, any other file by its path and digest.
        """
        if self._source.carried.get(file.path) == file.sha256:
            return _build_reference(quote(file.path))
        return _build_reference(f"#file-{percent_encode(file.path)}-{file.sha256[:16]}")

    def _describe_change(self, change: PlanChange) -> Iterator[Entity]:
        yield from self._describe_agent(change.decider)
        kind, status = _CHANGES[change.status]
        id_, is_approved = f"#{percent_encode(change.id)}", change.status == "approved"
        self._register_id(id_, "mentions")
        yield _build_entity(
            id_,
            kind,
            f"{change.id}: {change.kind} of {change.stage or 'the workflow'}",
            description=change.description,
            instrument=_build_reference(_ENGINE) if is_approved else None,
            object=_build_reference(FILE_NAME),
            result=_build_reference(FILE_NAME) if is_approved else None,
            **_format_times(change.proposed_at, change.decided_at),
            actionStatus=status,
            **_describe_actor_role(change.decider),
        )

    def _describe_agent(self, actor: Actor | None) -> Iterator[Entity]:
        """Yield the entity of an actor, unless the crate already contains it."""
        if actor is not None and self._register_id(_agent_id(actor)):
            id_ = _agent_id(actor)
            if actor.kind == "user":
                yield _build_entity(id_, "Person", str(actor))
            else:
                url = f"urn:wfctl:{percent_encode(actor.kind)}:{percent_encode(actor.name)}"
                yield _build_software(id_, str(actor), _UNKNOWN, url=url)

    def _describe_workflow(self) -> Iterator[Entity]:
        """Yield the workflow, its run and, if a stage ran, its orchestration by wfctl."""
        state, controls = self._state, self._listed["controls"]
        yield _build_software(_ENGINE, "wfctl", _UNKNOWN)
        yield _build_software(_LANGUAGE, "staged workflow", "1", type_="ComputerLanguage")
        yield _build_entity(
            FILE_NAME,
            ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            state.id,
            description=state.purpose,
            encodingFormat="application/json",
            programmingLanguage=_build_reference(_LANGUAGE),
            version=str(state.version),
            # The profile requires at least one tool. If no stage has run, wfctl is the only tool.
            hasPart=self._listed["tools"] or [_build_reference(_ENGINE)],
            step=self._listed["steps"],
        )
        done = state.workflow_status == "completed"
        self._register_id(_RUN, "mentions")
        yield _build_entity(
            _RUN,
            "CreateAction",
            f"run of {state.id}",
            description=state.purpose,
            instrument=_build_reference(FILE_NAME),
            **_format_times(self._began, state.updated if done else None),
            actionStatus=_COMPLETED if done else None,
        )
        if controls and self._register_id("#orchestration", "mentions"):
            of = {
                "instrument": _build_reference(_ENGINE),
                "object": controls,
                "result": _build_reference(_RUN),
            }
            name = f"orchestration of {state.id}"
            yield _build_entity("#orchestration", "OrganizeAction", name, **of)

    def _describe_root(self) -> Iterator[Entity]:
        """Yield the licence, the profiles, and finally the root entity."""
        state, stated = self._state, self._source.license
        license_ = stated if stated is not None and "://" in stated else "#license"
        yield _build_entity(license_, "CreativeWork", stated or _NO_LICENSE)
        for id_, name in _PROFILES.items():
            kinds = ["CreativeWork", "Profile"]
            yield _build_entity(id_, kinds, name, version=id_.rpartition("/")[2])
        yield _build_entity(
            "./",
            "Dataset",
            state.id,
            description=state.purpose or f"The staged workflow {state.id}",
            datePublished=state.updated[:10],
            license=_build_reference(license_),
            conformsTo=list(map(_build_reference, _PROFILES)),
            mainEntity=_build_reference(FILE_NAME),
            hasPart=[_build_reference(FILE_NAME), *self._listed["parts"]],
            mentions=self._listed["mentions"],
        )


def _build_entity(id_: str, type_: str | list[str], name: str, **more: Any) -> Entity:
    return {"@id": id_, "@type": type_, "name": name, **more}


def _build_software(
    id_: str, name: str, version: str, *, type_: str = "SoftwareApplication", **more: Any
) -> Entity:
    """Return the entity of a program or language, which must have a URL and a version."""
    return _build_entity(id_, type_, name, **{"url": id_, "version": version, **more})


def _format_times(start: str | None, end: str | None) -> Entity:
    """Return the start and end times in the form that the RO-Crate profiles require.

    They have milliseconds and a numeric UTC offset. Unknown times are left out.
    """
    both = dict(zip(("startTime", "endTime"), drop_end_before_start(start, end), strict=True))
    return {
        name: datetime.fromisoformat(moment).isoformat(timespec="milliseconds")
        for name, moment in both.items()
        if moment
    }


def _describe_parameters(run: Run) -> Iterator[Entity]:
    """Yield the parameter values that the stage had at the start of the attempt."""
    for name, value in run.parameters.items():
        shown = value if isinstance(value, str | int | float) else json.dumps(value, sort_keys=True)
        id_ = f"#parameter-{percent_encode(run.id)}-{percent_encode(name)}"
        yield _build_entity(id_, "PropertyValue", name, value=shown)


def _describe_number(run: Run, one: Mapping[str, Any]) -> list[Entity]:
    """Return the entities of a recorded number, its error and its reference value."""
    metric = parse_valid_metrics(run.parameters).get(one["name"])
    reference = (metric.reference if metric is not None else None) or {}
    source = reference.get("source") or ""
    place, unit = (
        f"{percent_encode(run.id)}-{percent_encode(one['name'])}",
        {"unitText": one.get("unit")},
    )
    error = {"value": one.get("error"), **unit}
    known = {"value": reference.get("value"), "description": source or None, **unit}
    others = [
        _build_entity(f"#{kind}-{place}", "PropertyValue", f"{name} of {one['name']}", **about)
        for kind, name, about in (
            ("error", "standard error", error),
            ("reference", "reference", known),
        )
        if about["value"] is not None
    ]
    task = f" at {one['task']}" if one.get("task") else ""
    number = _build_entity(
        f"#number-{place}",
        "PropertyValue",
        f"{one['name']}{task}",
        value=one["value"],
        **unit,
        propertyID=source if "://" in source else None,
        valueReference=[_build_reference(other["@id"]) for other in others],
        description=f"{one['path']}#{one['pointer']}",
    )
    return [number, *others]


def _build_number_references(run: Run) -> list[dict[str, str]]:
    return [
        _build_reference(f"#number-{percent_encode(run.id)}-{percent_encode(one['name'])}")
        for one in run.metrics
    ]


def _agent_id(actor: Actor) -> str:
    return f"#{percent_encode(actor.kind)}-{percent_encode(actor.name)}"


def _describe_actor_role(actor: Actor | None) -> Entity:
    """Return the role of an actor in an action.

    A person is its agent, a program its participant.
    """
    if actor is None:
        return {}
    return {"agent" if actor.kind == "user" else "participant": _build_reference(_agent_id(actor))}


def _build_reference(id_: str) -> dict[str, str]:
    return {"@id": id_}
