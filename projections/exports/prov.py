"""``prov``: W3C PROV as PROV-JSON (the W3C member submission of 2013).

Entities are files by content and the versions of the plan; activities are attempts and amendments;
agents are anyone who acted. An approved amendment makes a new version of the plan, which is a
revision of the one before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from tempfile import SpooledTemporaryFile
from typing import Any

from eventstore.event import Actor
from projections.exports.formats import ExportSource
from projections.exports.provenance import (
    Beginning,
    File,
    LoopRound,
    PlanChange,
    Run,
    Told,
    provenance,
)
from projections.words.came_about import told_code
from projections.words.text import quoted, workflow_uri

#: In the order of the document.
_SECTIONS = (
    "entity", "activity", "agent", "wasGeneratedBy", "used", "wasAssociatedWith",
    "wasAttributedTo", "wasDerivedFrom", "wasInformedBy",
)  # fmt: skip
#: Bytes of a section that stay in memory; the rest waits on disk for its turn.
_IN_MEMORY = 1 << 20
_TYPES = {"user": "prov:Person", "agent": "prov:SoftwareAgent"}


def export(source: ExportSource) -> Iterator[str]:
    """Yield the document, section by section."""
    prefixes = {"wf": f"{workflow_uri(source.state().id)}:", "wfctl": "urn:wfctl:term:"}
    with ExitStack() as files:
        writer = _Writer(files)
        for told in provenance(source.steps()):
            writer.add(told)
        yield f'{{\n"prefix": {json.dumps(prefixes)}'
        yield from writer.text()
        yield "\n}\n"


class _Writer:
    """Puts each statement into its section; a thing that is told of twice stands there once."""

    def __init__(self, files: ExitStack) -> None:
        self._sections = {name: files.enter_context(_section()) for name in _SECTIONS}
        self._known: set[str] = set()
        self._statements = 0
        self._plan = ""

    def text(self) -> Iterator[str]:
        """Yield the sections that hold anything."""
        for name, section in self._sections.items():
            if section.tell():
                section.seek(0)
                yield f',\n"{name}": {{'
                yield from section
                yield "\n}"

    def add(self, told: Told) -> None:
        """Take in what happened next."""
        match told:
            case Beginning():
                self._plan = self._version(1)
                self._relate("wasAttributedTo", entity=self._plan, agent=self._agent(told.actor))
            case Run():
                self._run(told)
            case PlanChange():
                self._change(told)
            case LoopRound():
                self._round(told)

    def _round(self, one: LoopRound) -> None:
        activity = _round_id(one)
        about = {**_times(one.start, one.told.ended_at), "wfctl:reason": one.told.reason}
        about |= {"prov:label": f"round {one.told.number} of {one.loop}"}
        self._thing("activity", activity, about)
        for file in one.files:
            self._relate("used", activity=activity, entity=self._file(file))
        if one.proposer is not None:
            self._relate("wasAssociatedWith", activity=activity, agent=self._agent(one.proposer))
        if one.before is not None:
            self._relate("wasInformedBy", informed=activity, informant=_round_id(one.before))
        for run in one.runs:
            self._relate("wasInformedBy", informed=_run_id(run), informant=activity)

    def _run(self, run: Run) -> None:
        activity = _run_id(run)
        about = {**_times(run.start, run.end), "prov:label": f"{run.name} ({run.id})"}
        for name in ("stage", "round", "host", "error", "completed"):
            about[f"wfctl:{name}"] = getattr(run, name)
        about["wfctl:commit"] = told_code(run.code) if run.code else None
        for one in run.metrics:
            told = {"number": one["value"], "error": one.get("error"), "unit": one.get("unit")}
            about |= {f"wfctl:{what}.{quoted(one['name'])}": told[what] for what in told}
        self._thing("activity", activity, about)
        self._relate("used", activity=activity, entity=self._version(run.plan))
        for file in run.inputs:
            self._relate("used", activity=activity, entity=self._file(file))
        for file in run.outputs:
            self._relate("wasGeneratedBy", entity=self._file(file), activity=activity)
        if run.actor is not None:
            self._relate("wasAssociatedWith", activity=activity, agent=self._agent(run.actor))

    def _change(self, change: PlanChange) -> None:
        activity = f"wf:{quoted(change.id)}"
        about = _times(change.proposed_at, change.decided_at)
        about["prov:label"] = f"{change.id} {change.kind}: {change.description}"
        about |= {"wfctl:stage": change.stage, "wfctl:decision": change.status}
        self._thing("activity", activity, about)
        for actor, role in ((change.proposer, "proposer"), (change.decider, change.status)):
            if actor is not None:
                given = {"activity": activity, "agent": self._agent(actor)}
                self._relate("wasAssociatedWith", **given, role=f"wfctl:{role}")
        if change.version is not None:
            before, self._plan = self._plan, self._version(change.version)
            self._relate("wasGeneratedBy", entity=self._plan, activity=activity)
            ends = {"generatedEntity": self._plan, "usedEntity": before, "activity": activity}
            self._relate("wasDerivedFrom", kind="prov:Revision", **ends)

    def _version(self, number: int) -> str:
        label = {"prov:type": _name("prov:Plan"), "prov:label": f"plan version {number}"}
        return self._thing("entity", f"wf:plan.{number}", label)

    def _file(self, file: File) -> str:
        about: dict[str, Any] = {"prov:label": file.path, "wfctl:path": file.path}
        about |= {"wfctl:bytes": file.size, "wfctl:sha256": file.sha256}
        return self._thing("entity", f"wf:file.{quoted(file.path)}.{file.sha256[:16]}", about)

    def _agent(self, actor: Actor) -> str:
        kind = _name(_TYPES.get(actor.kind, "prov:SoftwareAgent"))
        about = {"prov:type": kind, "prov:label": str(actor)}
        return self._thing("agent", f"wf:{quoted(actor.kind)}.{quoted(actor.name)}", about)

    def _thing(self, section: str, id_: str, about: dict[str, Any]) -> str:
        if id_ not in self._known:
            self._known.add(id_)
            self._write(section, id_, {k: v for k, v in about.items() if v is not None})
        return id_

    def _relate(self, section: str, kind: str = "", role: str = "", **ends: str) -> None:
        self._statements += 1
        about: dict[str, Any] = {f"prov:{key}": value for key, value in ends.items()}
        about |= {"prov:type": _name(kind)} if kind else {}
        about |= {"prov:role": _name(role)} if role else {}
        self._write(section, f"_:s{self._statements}", about)

    def _write(self, section: str, id_: str, about: dict[str, Any]) -> None:
        file = self._sections[section]
        before = "," if file.tell() else ""
        file.write(f"{before}\n{json.dumps(id_)}: {json.dumps(about, ensure_ascii=False)}")


def _section() -> SpooledTemporaryFile[str]:
    return SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8")


def _run_id(run: Run) -> str:
    return f"wf:run.{quoted(run.id)}"


def _round_id(one: LoopRound) -> str:
    return f"wf:round.{quoted(one.loop)}.{one.told.number}"


def _times(start: str | None, end: str | None) -> dict[str, Any]:
    return {"prov:startTime": start, "prov:endTime": end}


def _name(qualified: str) -> dict[str, str]:
    """Return a literal that is a qualified name."""
    return {"$": qualified, "type": "prov:QUALIFIED_NAME"}
