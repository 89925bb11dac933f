"""``ro-crate``: ``ro-crate-metadata.json`` of a Provenance Run Crate 0.5 (RO-Crate 1.1).

The crate's folder is the one that holds ``workflow-state.json``, which is its main workflow. One
action an attempt; an amendment is an action too, with the person who decided as its agent. A stage
that never ran is no tool and no step. Files are named by path and content: the log knows
them so, and they need not be in the folder any more. What the log does not say is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from mimetypes import MimeTypes
from typing import Any

from eventstore.event import Actor
from projections.exports.formats import ExportSource
from projections.exports.provenance import Beginning, File, PlanChange, Run, provenance
from projections.files.state_document import FILE_NAME
from projections.words.text import quoted, workflow_uri

FILE = "ro-crate-metadata.json"
#: RO-Crate 1.1 has no word for a digest yet; this is the one of the workflow run crates.
_CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"},
]
_PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
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
_NO_LICENSE = "No licence was stated; ask the authors."

#: Python's own table, whatever the machine has besides: the same file is called the same anywhere.
_MEDIA = MimeTypes()

Entity = dict[str, Any]


def export(source: ExportSource) -> Iterator[str]:
    """Yield the crate's metadata, entity by entity, the root last."""
    crate = _Crate(source)
    before = "["
    yield f'{{"@context": {json.dumps(_CONTEXT)}, "@graph": '
    for entity in crate.entities():
        yield f"{before}\n{json.dumps(_compact(entity), ensure_ascii=False)}"
        before = ","
    yield "\n]}\n"


class _Crate:
    """Tells of each thing once, and remembers the names that the last entities list."""

    def __init__(self, source: ExportSource) -> None:
        self._source = source
        self._state = source.state()
        self._places = {id_: str(n) for n, id_ in enumerate(self._state.stages, 1)}
        self._known: set[str] = set()
        self._parts: list[str] = []
        self._mentions: list[str] = []
        self._tools: list[str] = []
        self._steps: list[str] = []
        self._controls: list[str] = []
        self._began = ""

    def entities(self) -> Iterator[Entity]:
        """Yield all entities."""
        yield _descriptor()
        for told in provenance(self._source.steps()):
            match told:
                case Beginning():
                    yield from self._beginning(told)
                case Run():
                    yield from self._run(told)
                case PlanChange():
                    yield from self._change(told)
        yield from self._whole()

    def _beginning(self, told: Beginning) -> Iterator[Entity]:
        self._began = told.at
        self._mentions.append("#beginning")
        yield from self._agent(told.actor)
        yield {
            "@id": "#beginning",
            "@type": "CreateAction",
            "name": f"beginning of {self._state.id}",
            "instrument": _ref(_ENGINE),
            "result": _ref(FILE_NAME),
            "startTime": _time(told.at),
            "endTime": _time(told.at),
            "actionStatus": _COMPLETED,
            **_by(told.actor),
        }

    def _run(self, run: Run) -> Iterator[Entity]:
        yield from self._tool(run)
        action, control = f"#run-{quoted(run.id)}", f"#control-{quoted(run.id)}"
        parameters = list(_parameters(run))
        yield from parameters
        yield from self._agent(run.actor)
        for file in (*run.inputs, *run.outputs):
            yield from self._file(file)
        self._mentions.append(action)
        yield {
            "@id": action,
            "@type": "CreateAction",
            "name": f"{run.name}: {run.attempt or 'run'}",
            "description": f"{run.id} of {self._state.id}, by version {run.plan} of its plan"
            + (f", on {run.host}" if run.host else ""),
            "instrument": _ref(self._tool_id(run.stage)),
            "startTime": _time(run.start),
            "endTime": _time(run.end),
            "object": [*map(_content, run.inputs), *(_ref(p["@id"]) for p in parameters)],
            "result": [_content(file) for file in run.outputs],
            "actionStatus": {None: None, True: _COMPLETED, False: _FAILED}[run.completed],
            "error": run.error,
            **_by(run.actor),
        }
        self._controls.append(control)
        yield {
            "@id": control,
            "@type": "ControlAction",
            "name": f"orchestration of {run.id}",
            "instrument": _ref(f"#step-{run.stage}"),
            "object": _ref(action),
        }

    def _tool(self, run: Run) -> Iterator[Entity]:
        """What a stage runs: its command line, with the name that people gave it."""
        tool, step = self._tool_id(run.stage), f"#step-{run.stage}"
        if tool in self._known:
            return
        self._known.add(tool)
        self._tools.append(tool)
        self._steps.append(step)
        command = run.parameters.get("command")
        yield {
            "@id": tool,
            "@type": "SoftwareApplication",
            "name": run.name,
            "description": f"command: {command}" if isinstance(command, str) else None,
        }
        yield {
            "@id": step,
            "@type": "HowToStep",
            "name": run.name,
            "position": self._places.get(run.stage),
            "workExample": _ref(tool),
        }

    def _tool_id(self, stage: str) -> str:
        return f"{workflow_uri(self._state.id)}:{stage}"

    def _file(self, file: File) -> Iterator[Entity]:
        id_ = _content(file)["@id"]
        if id_ in self._known:
            return
        self._known.add(id_)
        self._parts.append(id_)
        yield {
            "@id": id_,
            "@type": "File",
            "name": file.path,
            "contentSize": str(file.size),
            "sha256": file.sha256,
            "encodingFormat": _MEDIA.guess_type(file.path)[0],
        }

    def _change(self, change: PlanChange) -> Iterator[Entity]:
        yield from self._agent(change.decider)
        kind, status = _CHANGES[change.status]
        id_ = f"#{quoted(change.id)}"
        self._mentions.append(id_)
        yield {
            "@id": id_,
            "@type": kind,
            "name": f"{change.id}: {change.kind} of {change.stage or 'the workflow'}",
            "description": change.description,
            "instrument": _ref(_ENGINE) if change.status == "approved" else None,
            "object": _ref(FILE_NAME),
            "result": _ref(FILE_NAME) if change.status == "approved" else None,
            "startTime": _time(change.proposed_at),
            "endTime": _time(change.decided_at),
            "actionStatus": status,
            **_by(change.decider),
        }

    def _agent(self, actor: Actor | None) -> Iterator[Entity]:
        """Tell of whoever acted, where nobody did before."""
        if actor is None or _agent_id(actor) in self._known:
            return
        self._known.add(_agent_id(actor))
        yield {
            "@id": _agent_id(actor),
            "@type": "Person" if actor.kind == "user" else "SoftwareApplication",
            "name": str(actor),
        }

    def _whole(self) -> Iterator[Entity]:
        """Yield the workflow, its run, and the root that lists all."""
        state = self._state
        yield {"@id": _ENGINE, "@type": "SoftwareApplication", "name": "wfctl"}
        yield {"@id": _LANGUAGE, "@type": "ComputerLanguage", "name": "staged workflow"}
        yield {
            "@id": FILE_NAME,
            "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
            "name": state.id,
            "description": state.purpose,
            "encodingFormat": "application/json",
            "programmingLanguage": _ref(_LANGUAGE),
            "version": str(state.version),
            # Where no stage has run the engine is all that has.
            "hasPart": list(map(_ref, self._tools or [_ENGINE])),
            "step": list(map(_ref, self._steps)),
        }
        yield from self._orchestration()
        stated = self._source.license or _NO_LICENSE
        yield {"@id": self._license_id(), "@type": "CreativeWork", "name": stated}
        for id_, name in _PROFILES.items():
            version = id_.rpartition("/")[2]
            yield {"@id": id_, "@type": "CreativeWork", "name": name, "version": version}
        yield {
            "@id": "./",
            "@type": "Dataset",
            "name": state.id,
            "description": state.purpose or f"The staged workflow {state.id}",
            "datePublished": state.updated[:10],
            "license": _ref(self._license_id()),
            "conformsTo": list(map(_ref, _PROFILES)),
            "mainEntity": _ref(FILE_NAME),
            "hasPart": [_ref(FILE_NAME), *map(_ref, self._parts)],
            "mentions": list(map(_ref, self._mentions)),
        }

    def _orchestration(self) -> Iterator[Entity]:
        """The run of the whole, and the engine's part in it where any stage ran."""
        state = self._state
        done = state.workflow_status == "completed"
        self._mentions.append(_RUN)
        yield {
            "@id": _RUN,
            "@type": "CreateAction",
            "name": f"run of {state.id}",
            "description": state.purpose,
            "instrument": _ref(FILE_NAME),
            "startTime": _time(self._began),
            "endTime": _time(state.updated) if done else None,
            "actionStatus": _COMPLETED if done else None,
        }
        if self._controls:
            self._mentions.append("#orchestration")
            yield {
                "@id": "#orchestration",
                "@type": "OrganizeAction",
                "name": f"orchestration of {state.id}",
                "instrument": _ref(_ENGINE),
                "object": list(map(_ref, self._controls)),
                "result": _ref(_RUN),
            }

    def _license_id(self) -> str:
        stated = self._source.license
        return stated if stated is not None and "://" in stated else "#license"


def _descriptor() -> Entity:
    conforms = ["https://w3id.org/ro/crate/1.1", list(_PROFILES)[-1]]
    return {
        "@id": FILE,
        "@type": "CreativeWork",
        "about": _ref("./"),
        "conformsTo": list(map(_ref, conforms)),
    }


def _parameters(run: Run) -> Iterator[Entity]:
    """Yield the values that the stage had when the attempt began."""
    for name, value in run.parameters.items():
        shown = value if isinstance(value, str | int | float) else json.dumps(value, sort_keys=True)
        yield {
            "@id": f"#parameter-{quoted(run.id)}-{quoted(name)}",
            "@type": "PropertyValue",
            "name": name,
            "value": shown,
        }


def _agent_id(actor: Actor) -> str:
    return f"#{quoted(actor.kind)}-{quoted(actor.name)}"


def _by(actor: Actor | None) -> Entity:
    """Return who did it: only a person is an agent in the vocabulary; a program takes part."""
    if actor is None:
        return {}
    return {"agent" if actor.kind == "user" else "participant": _ref(_agent_id(actor))}


def _time(moment: str | None) -> str | None:
    """Return a time with milliseconds and an offset in digits: the form that the profiles want."""
    return datetime.fromisoformat(moment).isoformat(timespec="milliseconds") if moment else None


def _compact(entity: Entity) -> Entity:
    """Return an entity without what is unknown, a list of one as the one: as RO-Crate writes it."""
    known = {key: value for key, value in entity.items() if value not in (None, [], {})}
    return {k: v[0] if isinstance(v, list) and len(v) == 1 else v for k, v in known.items()}


def _content(file: File) -> dict[str, str]:
    return _ref(f"#file-{quoted(file.path)}-{file.sha256[:16]}")


def _ref(id_: str) -> dict[str, str]:
    return {"@id": id_}
