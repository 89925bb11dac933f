"""The tools: what each takes, and the command lines that it stands for.

A table and nothing else, so that what is not in it is not on offer: agreeing in a person's name,
saying who acts, keys and consent, giving up for good, taking over or undoing hand edits, databases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
TEXTS: Schema = {"type": "array", "items": {"type": "string"}}
OBJECT: Schema = {"type": "object"}


def _said(schema: Schema, text: str) -> Schema:
    return {**schema, "description": text}


#: What tools of several kinds take.
FIELDS: dict[str, Schema] = {
    "root": TEXT,
    "stage": TEXT,
    "machine": TEXT,
    "request_id": _said(TEXT, "Yours; repeated: first answer, nothing twice"),
    "expected_version": NUMBER,
    "at": _said(TEXT, "Version, time, session:3"),
    "reason": TEXT,
    "limit": NUMBER,
    "tokens": {"type": "integer", "maximum": 1500},
}


class Route(NamedTuple):
    """A command line that a tool stands for.

    ``words`` name the command, ``places`` the arguments that it takes by place, in order;
    ``options`` tells field → option. ``needs``: fields without which it is another route's.
    ``fixed``: words that it always has.
    """

    words: tuple[str, ...]
    places: tuple[str, ...] = ()
    options: Mapping[str, str] = {}
    needs: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()

    @property
    def fields(self) -> frozenset[str]:
        """What it takes."""
        return frozenset((*self.places, *self.options))


class Tool(NamedTuple):
    """A tool: its own fields, and for each ``action`` its routes; None where it has no actions.

    ``decided_by``: the command with which a person decides of the ``amendment`` that it shows.
    ``destroys``: it may end or replace what is there; ``reaches_out``: it speaks to schedulers.
    """

    name: str
    says: str
    routes: Mapping[str | None, tuple[Route, ...]]
    own: Mapping[str, Schema] = {}
    required: tuple[str, ...] = ()
    writes: bool = False
    decided_by: str = ""
    destroys: bool = False
    reaches_out: bool = False

    @property
    def flags(self) -> frozenset[str]:
        """Its fields that are true or are left out."""
        return frozenset(name for name, said in self.own.items() if said is FLAG)

    @property
    def schema(self) -> Schema:
        """JSON Schema of its arguments."""
        taken: set[str] = set().union(*(r.fields for some in self.routes.values() for r in some))
        known = {**FIELDS, **self.own}
        order = [name for name in known if name in taken]
        properties = {name: known[name] for name in order}
        actions = [action for action in self.routes if action is not None]
        if actions:
            properties = {"action": {"type": "string", "enum": actions}, **properties}
        properties["root"] = FIELDS["root"]
        required = [*(["action"] if actions else []), *self.required]
        found: Schema = {"type": "object", "properties": properties}
        if required:
            found["required"] = required
        return found


#: Options of writes.
_ONCE = "request_id=--command-id"
_WRITE = f"{_ONCE} expected_version"


def _route(line: str, options: str = "") -> Route:
    """Return a route: ``command {place} --fixed``, and ``field`` or ``field=--option``.

    A field with ``!`` is needed.
    """
    words, fields = line.split(), options.split()
    places = tuple(word[1:-1].rstrip("!") for word in words if word[0] == "{")
    named = [field.partition("=") for field in fields]
    taken = {(name := each.rstrip("!")): way or _option_of(name) for each, _, way in named}
    marked = [word.strip("{}") for word in words] + [each for each, _, _ in named]
    return Route(
        tuple(word for word in words if word[0] not in "{-"),
        places,
        taken,
        tuple(each[:-1] for each in marked if each.endswith("!")),
        tuple(word for word in words if word[0] == "-"),
    )


def _option_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


READING = (
    Tool(
        "brief",
        "Where the work stands and what to do next; call it first, and whenever you lost track.",
        {
            None: (
                _route("machine rehydrate {machine!} --dry-run"),
                _route("rehydrate --dry-run", "tokens=--brief"),
            )
        },
    ),
    Tool(
        "list",
        "All machines, and the staged workflow, with phase, age and blockers.",
        {None: (_route("machine list", "type phase limit"),)},
        {"type": TEXT, "phase": TEXT},
    ),
    Tool(
        "get",
        "One stage with its attempts, one machine or a part of it (query: dot path), or the whole "
        "workflow's status.",
        {
            None: (
                _route("machine get {machine!}", "query fields at"),
                _route("show {stage!}", "at"),
                _route("status", "at"),
            )
        },
        {"query": TEXT, "fields": _said(TEXT, "Comma-separated")},
    ),
    Tool(
        "describe",
        "What a machine's type allows (phases, transitions, guards), or the JSON Schema of an "
        "event type, `plan` or `answer`.",
        {"machine": (_route("machine describe {type!}"),), "schema": (_route("schema {type!}"),)},
        {"type": TEXT},
        ("type",),
    ),
    Tool(
        "history",
        "log: what happened. why: causes of a stage's status, or what would unblock. blame: who "
        "set a field. diff: between moments a and b. amendments: who changed what. events: raw, "
        "after a version. report: the whole, for people.",
        {
            "log": (_route("log", "limit stage at machine"),),
            "why": (
                _route("why", "machine! at"),
                _route("why {stage!}", "at"),
                _route("why", "at"),
            ),
            "blame": (_route("blame {field!}", "machine at"),),
            "diff": (_route("diff {a!} {b}", "machine"),),
            "amendments": (_route("audit amendments"),),
            "report": (_route("report"),),
            "events": (_route("events", "machine since limit"),),
        },
        {"field": _said(TEXT, "Such as stage-2.parameters.x"), "a": TEXT, "b": TEXT, "since": TEXT},
    ),
    Tool(
        "check",
        "results: outputs and inputs as recorded? files: hand edits? log: unaltered? plan: would "
        "a plan be taken?",
        {
            "results": (_route("verify {stage!}", "deep"), _route("verify", "deep")),
            "files": (_route("machine drift {machine!}"), _route("drift show")),
            "log": (_route("fsck"),),
            "plan": (_route("plan check {plan!}"),),
        },
        {"deep": FLAG, "plan": _said(TEXT, "Its file")},
    ),
    Tool(
        "job",
        "Of a stage: diagnose says what failed, logs what its job printed, tasks each of a sweep.",
        {
            "diagnose": (_route("stage diagnose {stage}"),),
            "logs": (_route("logs {stage}", "attempt task err lines"),),
            "tasks": (_route("tasks {stage}", "failed where lines"),),
        },
        {
            "attempt": TEXT,
            "task": TEXT,
            "failed": FLAG,
            "where": TEXTS,
            "err": FLAG,
            "lines": NUMBER,
        },
        ("stage",),
    ),
    Tool(
        "ask_person",
        "What waits for a person: shows an amendment with its impact, or a machine's approvals, "
        "and the command that only a person runs. Tell it to them and go on with other work.",
        {
            None: (
                _route("machine rehydrate {machine!} --dry-run"),
                _route("amend show {amendment!}"),
                _route("amend list --state=proposed"),
            )
        },
        {"amendment": TEXT},
        decided_by="wfctl amend approve {amendment}",
    ),
)

_DATA = _said(OBJECT, "Dot path → value")
#: Of the types that come with wfctl; a type of one's own names its own.
STATUSES = (
    "pending, in_progress, complete, failed; dotagent: pending, running, pre_complete, blocked, "
    "verified, failed; `describe` has those of other types"
)

WRITING = (
    Tool(
        "recover",
        "After a crash or a lost session: compare log, files, jobs and scheduler, repair, and "
        "brief you.",
        {
            None: (
                _route("machine rehydrate {machine!}", f"{_ONCE} task=--resume-from"),
                _route("rehydrate", "tokens=--brief"),
            )
        },
        {"task": TEXT},
        writes=True,
    ),
    Tool(
        "begin",
        "A workflow from a plan file (a person approves the plan), a machine of a type, or a "
        "session of work.",
        {
            "workflow": (_route("init {plan!}", _ONCE),),
            "machine": (_route("machine init {machine!}", f"type! data {_ONCE}"),),
            "session": (_route("session start", _WRITE),),
        },
        {"plan": TEXT, "type": TEXT, "data": _DATA},
        writes=True,
    ),
    Tool(
        "update",
        "Set fields of a machine's state; never its phase.",
        {None: (_route("machine update {machine!}", f"data! {_WRITE}"),)},
        {"data": _DATA},
        ("machine", "data"),
        writes=True,
    ),
    Tool(
        "task",
        "Add a task of a machine, or change one. claim: take it for a time (30m), so that only "
        "who shows its handle changes it (under); renew goes on with yours. release gives it back.",
        {
            None: (
                _route(
                    "machine task claim {machine!} {task!}", f"claim!=--for renew under {_WRITE}"
                ),
                _route(
                    "machine task release {machine!} {task!}", f"release!=--reason under {_WRITE}"
                ),
                _route("machine task {machine!} {task!}", f"status title reason under {_WRITE}"),
            )
        },
        {
            "task": TEXT,
            "status": _said(TEXT, STATUSES),
            "title": TEXT,
            "claim": _said(TEXT, "How long"),
            "renew": FLAG,
            "release": _said(TEXT, "Why"),
            "under": _said(TEXT, "Your claim's handle"),
        },
        ("machine", "task"),
        writes=True,
    ),
    Tool(
        "transition",
        "Take a machine to another phase; without one, the only way that is open.",
        {
            None: (
                _route("machine transition {machine!} {phase!}", f"reason {_WRITE}"),
                _route("machine transition {machine!} --auto", f"reason {_WRITE}"),
            )
        },
        {"phase": TEXT},
        ("machine",),
        writes=True,
    ),
    Tool(
        "checkpoint",
        "Leave a hand-off before you stop: of a machine (summary, next), of a stage (data: where "
        "it can go on from), or end the session (end).",
        {
            None: (
                _route("machine checkpoint {machine!}", f"summary! next {_WRITE}"),
                _route("stage checkpoint {stage!} {data!}", _WRITE),
                _route("session end", f"end!=--reason next {_WRITE}"),
            )
        },
        {
            "summary": TEXT,
            "next": TEXTS,
            "data": OBJECT,
            "end": {
                "type": "string",
                "enum": ["completed", "blocked", "budget_exhausted", "waiting"],
            },
        },
        writes=True,
    ),
    Tool(
        "record",
        "A note for the log, or an event that a machine's definition names.",
        {
            None: (
                _route("machine append {machine!} {event!}", f"data {_WRITE}"),
                _route("note {note!}", f"stage {_WRITE}"),
            )
        },
        {"note": TEXT, "event": TEXT, "data": OBJECT},
        writes=True,
    ),
    Tool(
        "stage",
        "prepare → dispatch → wait → verify → complete; retry (fix: what was put right) after a "
        "failure; fail (error) gives an attempt up; outputs declares files.",
        {
            "ready": (_route("stage ready {stage}", _WRITE),),
            "prepare": (_route("stage prepare {stage}", _WRITE),),
            "dispatch": (_route("dispatch {stage}", _WRITE),),
            "wait": (_route("wait {stage}", "seconds=--timeout"),),
            "verify": (_route("stage verify {stage}"),),
            "complete": (_route("stage complete {stage}", f"evidence or_fail {_WRITE}"),),
            "retry": (_route("stage retry {stage}", f"fix! {_WRITE}"),),
            "fail": (_route("stage fail {stage}", f"error! category {_WRITE}"),),
            "outputs": (_route("stage outputs {stage} {paths!}", _WRITE),),
        },
        {
            "fix": TEXT,
            "error": TEXT,
            "category": TEXT,
            "evidence": _said(TEXT, "What shows that criteria in prose hold"),
            "or_fail": FLAG,
            "seconds": {"type": "integer", "maximum": 100},
            "paths": TEXTS,
        },
        ("stage",),
        writes=True,
        destroys=True,
        reaches_out=True,
    ),
    Tool(
        "propose",
        "Propose a change of definition (parameters, criteria, dependencies, rerun, skip); a "
        "person decides. set: dot path → value.",
        {
            None: (
                _route(
                    "amend propose",
                    f"stages=--stage set unset reason type insert place dry_run {_WRITE}",
                ),
            )
        },
        {
            "stages": TEXTS,
            "set": _DATA,
            "unset": TEXTS,
            "type": _said(TEXT, "If not plain: stage_rerun, stage_insertion, stage_skip …"),
            "insert": _said(OBJECT, "Definition of a new stage"),
            "place": NUMBER,
            "dry_run": FLAG,
        },
        ("reason",),
        writes=True,
    ),
)

TOOLS: dict[str, Tool] = {tool.name: tool for tool in (*READING, *WRITING)}
