"""``ro-crate``: ``ro-crate-metadata.json`` of a Provenance Run Crate 0.6 (RO-Crate 1.3).

The crate's folder is the one that holds ``workflow-state.json``, which is its main workflow. One
action an attempt, one a round of a loop, whose object has the numbers of the round before; an
amendment is an action too, with the person who decided as its agent. A stage that never ran is no
tool and no step. Files are named by path and content: the log knows them so, and they need not be
in the folder any more. What the log does not say is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain
from mimetypes import MimeTypes
from typing import Any

from eventstore.event import Actor
from lifecycle.words.metrics import metrics_of
from projections.exports.formats import ExportSource
from projections.exports.provenance import Beginning, File, LoopRound, PlanChange, Run, provenance
from projections.files.state_document import FILE_NAME
from projections.files.summary import is_figure
from projections.words.came_about import told_code
from projections.words.text import quoted, workflow_uri

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
#: A decision's status → the type of its action, and how far it came.
_CHANGES = {
    "approved": ("UpdateAction", _COMPLETED),
    "rejected": ("RejectAction", _COMPLETED),
    "proposed": ("SuggestAction", None),
}
#: The version of a program of which the log holds none.
_UNKNOWN = "unknown"
_NO_LICENSE = "No licence was stated; ask the authors."

#: Python's own table, whatever the machine has besides: the same file is called the same anywhere.
_MEDIA = MimeTypes()

Entity = dict[str, Any]


def export(source: ExportSource) -> Iterator[str]:
    """Yield the crate's metadata, entity by entity, the root last.

    As RO-Crate writes it: without what is unknown, and a list of one as the one.
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
    """Tells of each thing once, and remembers the names that the last entities list."""

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
        """Yield all entities."""
        conforms = ["https://w3id.org/ro/crate/1.3", list(_PROFILES)[-1]]
        about = {"about": _ref("./"), "conformsTo": list(map(_ref, conforms))}
        yield {"@id": FILE, "@type": "CreativeWork", **about}
        for told in provenance(self._source.steps()):
            match told:
                case Beginning():
                    yield from self._beginning(told)
                case Run():
                    yield from self._run(told)
                case PlanChange():
                    yield from self._change(told)
                case LoopRound():
                    yield from self._round(told)
        yield from self._whole()
        yield from self._root()

    def _is_new(self, id_: str, *lists: str) -> bool:
        """Whether a thing was not told of yet; it is from now on, and listed."""
        if id_ in self._known:
            return False
        self._known.add(id_)
        for name in lists:
            self._listed[name].append(_ref(id_))
        return True

    def _beginning(self, told: Beginning) -> Iterator[Entity]:
        self._began = told.at
        self._is_new("#beginning", "mentions")
        yield from self._agent(told.actor)
        yield _entity(
            "#beginning",
            "CreateAction",
            f"beginning of {self._state.id}",
            instrument=_ref(_ENGINE),
            result=_ref(FILE_NAME),
            **_when(told.at, told.at),
            actionStatus=_COMPLETED,
            **_by(told.actor),
        )

    def _run(self, run: Run) -> Iterator[Entity]:
        yield from self._tool(run)
        action, control = f"#run-{quoted(run.id)}", f"#control-{quoted(run.id)}"
        parameters = list(_parameters(run))
        numbers = [_number(run, one) for one in run.metrics]
        yield from (*parameters, *chain.from_iterable(numbers))
        yield from self._agent(run.actor)
        for file in (*run.inputs, *run.outputs):
            yield from self._file(file)
        self._is_new(action, "mentions")
        on = f", on {run.host}" if run.host else ""
        on += f", commit {told_code(run.code)}" if run.code else ""
        yield _entity(
            action,
            "CreateAction",
            f"{run.name}: {run.attempt or 'run'}",
            description=f"{run.id} of {self._state.id}, by version {run.plan} of its plan{on}",
            instrument=_ref(self._tool_id(run.stage)),
            **_when(run.start, run.end),
            object=[*map(_content, run.inputs), *(_ref(p["@id"]) for p in parameters)],
            result=[*map(_content, run.outputs), *_numbers_of(run)],
            actionStatus={None: None, True: _COMPLETED, False: _FAILED}[run.completed],
            error=run.error,
            **_by(run.actor),
        )
        self._is_new(control, "controls")
        by, of = {"instrument": _ref(f"#step-{run.stage}")}, {"object": _ref(action)}
        yield _entity(control, "ControlAction", f"orchestration of {run.id}", **by, **of)

    def _round(self, one: LoopRound) -> Iterator[Entity]:
        """A round: what its points came from, what it came to, and the attempts between."""
        number, tool = one.told.number, f"{workflow_uri(self._state.id)}:rounds:{one.loop}"
        name, place = f"round {number} of {one.loop}", f"{quoted(one.loop)}-{number}"
        yield from self._loop(one.loop, tool)
        yield from self._agent(one.proposer)
        points = f"#points-{place}"
        if one.told.points:
            value = json.dumps(one.told.points, ensure_ascii=False)
            yield _entity(points, "PropertyValue", f"points of {name}", value=value)
        before = one.before.counting if one.before else []
        action, asked = f"#round-{place}", self._tool_id(one.asked or "")
        chosen = {"participant": _ref(asked)} if asked in self._known else _by(one.proposer)
        self._is_new(action, "mentions")
        yield _entity(
            action,
            "CreateAction",
            name,
            description=one.told.reason,
            instrument=_ref(tool),
            **_when(one.start, one.told.ended_at),
            object=[
                *map(_content, one.files),
                *([_ref(points)] if one.told.points else []),
                *chain.from_iterable(map(_numbers_of, before)),
            ],
            result=[*chain.from_iterable(map(_numbers_of, one.counting))],
            actionStatus=_COMPLETED if one.told.ended_at else None,
            **chosen,
        )
        if one.runs:
            control = f"#orchestration-{place}"
            self._is_new(control, "mentions")
            controls = [_ref(f"#control-{quoted(run.id)}") for run in one.runs]
            of = {"instrument": _ref(_ENGINE), "object": controls, "result": _ref(action)}
            yield _entity(control, "OrganizeAction", f"orchestration of {name}", **of)

    def _loop(self, name: str, tool: str) -> Iterator[Entity]:
        """A loop as what its rounds run: the tools of its stages."""
        if self._is_new(tool, "tools"):
            loop = self._state.loop(name)
            ends = [*map(str, loop.until), f"at most {loop.at_most} rounds"]
            tools = [one for one in map(self._tool_id, loop.stages) if one in self._known]
            of = {"description": "; ".join(ends), "hasPart": list(map(_ref, tools))}
            yield {**_software(tool, f"loop {name}", str(self._state.version)), **of}

    def _tool(self, run: Run) -> Iterator[Entity]:
        """What a stage runs: its command line, with the name that people gave it."""
        tool, step = self._tool_id(run.stage), f"#step-{run.stage}"
        if self._is_new(tool, "tools"):
            self._is_new(step, "steps")
            command = run.parameters.get("command")
            said = f"command: {command}" if isinstance(command, str) else None
            version = str(run.plan)
            yield _software(tool, run.name, version, description=said)
            place = self._places.get(run.stage)
            yield _entity(step, "HowToStep", run.name, position=place, workExample=_ref(tool))

    def _tool_id(self, stage: str) -> str:
        return f"{workflow_uri(self._state.id)}:{stage}"

    def _file(self, file: File) -> Iterator[Entity]:
        id_ = _content(file)["@id"]
        if self._is_new(id_, "parts"):
            size, kind = str(file.size), _MEDIA.guess_type(file.path)[0]
            about = {"contentSize": size, "sha256": file.sha256, "encodingFormat": kind}
            types = ["File", "ImageObject"] if is_figure(file.path) else "File"
            yield _entity(id_, types, file.path, **about)

    def _change(self, change: PlanChange) -> Iterator[Entity]:
        yield from self._agent(change.decider)
        kind, status = _CHANGES[change.status]
        id_, is_approved = f"#{quoted(change.id)}", change.status == "approved"
        self._is_new(id_, "mentions")
        yield _entity(
            id_,
            kind,
            f"{change.id}: {change.kind} of {change.stage or 'the workflow'}",
            description=change.description,
            instrument=_ref(_ENGINE) if is_approved else None,
            object=_ref(FILE_NAME),
            result=_ref(FILE_NAME) if is_approved else None,
            **_when(change.proposed_at, change.decided_at),
            actionStatus=status,
            **_by(change.decider),
        )

    def _agent(self, actor: Actor | None) -> Iterator[Entity]:
        """Tell of anyone who acted, if nobody did before."""
        if actor is not None and self._is_new(_agent_id(actor)):
            id_ = _agent_id(actor)
            if actor.kind == "user":
                yield _entity(id_, "Person", str(actor))
            else:
                url = f"urn:wfctl:{quoted(actor.kind)}:{quoted(actor.name)}"
                yield _software(id_, str(actor), _UNKNOWN, url=url)

    def _whole(self) -> Iterator[Entity]:
        """Yield the workflow, its run, and the engine's part in it if any stage ran."""
        state, controls = self._state, self._listed["controls"]
        yield _software(_ENGINE, "wfctl", _UNKNOWN)
        yield _software(_LANGUAGE, "staged workflow", "1", type_="ComputerLanguage")
        yield _entity(
            FILE_NAME,
            ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            state.id,
            description=state.purpose,
            encodingFormat="application/json",
            programmingLanguage=_ref(_LANGUAGE),
            version=str(state.version),
            # If no stage has run the engine is all that has.
            hasPart=self._listed["tools"] or [_ref(_ENGINE)],
            step=self._listed["steps"],
        )
        done = state.workflow_status == "completed"
        self._is_new(_RUN, "mentions")
        yield _entity(
            _RUN,
            "CreateAction",
            f"run of {state.id}",
            description=state.purpose,
            instrument=_ref(FILE_NAME),
            **_when(self._began, state.updated if done else None),
            actionStatus=_COMPLETED if done else None,
        )
        if controls and self._is_new("#orchestration", "mentions"):
            of = {"instrument": _ref(_ENGINE), "object": controls, "result": _ref(_RUN)}
            name = f"orchestration of {state.id}"
            yield _entity("#orchestration", "OrganizeAction", name, **of)

    def _root(self) -> Iterator[Entity]:
        """Yield the licence and the profiles, and last the root, which lists all."""
        state, stated = self._state, self._source.license
        license_ = stated if stated is not None and "://" in stated else "#license"
        yield _entity(license_, "CreativeWork", stated or _NO_LICENSE)
        for id_, name in _PROFILES.items():
            kinds = ["CreativeWork", "Profile"]
            yield _entity(id_, kinds, name, version=id_.rpartition("/")[2])
        yield _entity(
            "./",
            "Dataset",
            state.id,
            description=state.purpose or f"The staged workflow {state.id}",
            datePublished=state.updated[:10],
            license=_ref(license_),
            conformsTo=list(map(_ref, _PROFILES)),
            mainEntity=_ref(FILE_NAME),
            hasPart=[_ref(FILE_NAME), *self._listed["parts"]],
            mentions=self._listed["mentions"],
        )


def _entity(id_: str, type_: str | list[str], name: str, **more: Any) -> Entity:
    return {"@id": id_, "@type": type_, "name": name, **more}


def _software(
    id_: str, name: str, version: str, *, type_: str = "SoftwareApplication", **more: Any
) -> Entity:
    """Return a program or a language, which has to have an address and a version."""
    return _entity(id_, type_, name, **{"url": id_, "version": version, **more})


def _when(start: str | None, end: str | None) -> Entity:
    """Return times with milliseconds and an offset in digits: the form that the profiles want."""
    both = {"startTime": start, "endTime": end}
    return {
        name: datetime.fromisoformat(moment).isoformat(timespec="milliseconds")
        for name, moment in both.items()
        if moment
    }


def _parameters(run: Run) -> Iterator[Entity]:
    """Yield the values that the stage had when the attempt began."""
    for name, value in run.parameters.items():
        shown = value if isinstance(value, str | int | float) else json.dumps(value, sort_keys=True)
        id_ = f"#parameter-{quoted(run.id)}-{quoted(name)}"
        yield _entity(id_, "PropertyValue", name, value=shown)


def _number(run: Run, one: Mapping[str, Any]) -> list[Entity]:
    """Return a number that was found, then its error and what it is compared with, if known."""
    metric = metrics_of(run.parameters).get(one["name"])
    reference = (metric.reference if metric is not None else None) or {}
    source = reference.get("source") or ""
    place, unit = f"{quoted(run.id)}-{quoted(one['name'])}", {"unitText": one.get("unit")}
    error = {"value": one.get("error"), **unit}
    known = {"value": reference.get("value"), "description": source or None, **unit}
    others = [
        _entity(f"#{kind}-{place}", "PropertyValue", f"{name} of {one['name']}", **about)
        for kind, name, about in (
            ("error", "standard error", error),
            ("reference", "reference", known),
        )
        if about["value"] is not None
    ]
    task = f" at {one['task']}" if one.get("task") else ""
    number = _entity(
        f"#number-{place}",
        "PropertyValue",
        f"{one['name']}{task}",
        value=one["value"],
        **unit,
        propertyID=source if "://" in source else None,
        valueReference=[_ref(other["@id"]) for other in others],
        description=f"{one['path']}#{one['pointer']}",
    )
    return [number, *others]


def _numbers_of(run: Run) -> list[dict[str, str]]:
    return [_ref(f"#number-{quoted(run.id)}-{quoted(one['name'])}") for one in run.metrics]


def _agent_id(actor: Actor) -> str:
    return f"#{quoted(actor.kind)}-{quoted(actor.name)}"


def _by(actor: Actor | None) -> Entity:
    """Return who did it: only a person is an agent in the vocabulary; a program takes part."""
    if actor is None:
        return {}
    return {"agent" if actor.kind == "user" else "participant": _ref(_agent_id(actor))}


def _content(file: File) -> dict[str, str]:
    return _ref(f"#file-{quoted(file.path)}-{file.sha256[:16]}")


def _ref(id_: str) -> dict[str, str]:
    return {"@id": id_}
