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


_ONCE = {"request_id": "--command-id"}
_WRITE = {**_ONCE, "expected_version": "--expected-version"}
_AT = {"at": "--at"}
_LOGS = {"attempt": "--attempt", "task": "--task", "err": "--err", "lines": "--lines"}
_TASKS = {"failed": "--failed", "where": "--where", "lines": "--lines"}
_HISTORY = {"limit": "--limit", "stage": "--stage", **_AT}

READING = (
    Tool(
        "brief",
        "Where the work stands and what to do next; call it first, and whenever you lost track.",
        {
            None: (
                Route(("machine", "rehydrate"), ("machine",), {}, ("machine",), ("--dry-run",)),
                Route(("rehydrate",), (), {"tokens": "--brief"}, (), ("--dry-run",)),
            )
        },
    ),
    Tool(
        "list",
        "All machines, and the staged workflow, with phase, age and blockers.",
        {
            None: (
                Route(
                    ("machine", "list"),
                    (),
                    {"type": "--type", "phase": "--phase", "limit": "--limit"},
                ),
            )
        },
        {"type": TEXT, "phase": TEXT},
    ),
    Tool(
        "get",
        "One stage with its attempts, one machine or a part of it (query: dot path), or the whole "
        "workflow's status.",
        {
            None: (
                Route(
                    ("machine", "get"),
                    ("machine",),
                    {"query": "--query", "fields": "--fields", **_AT},
                    ("machine",),
                ),
                Route(("show",), ("stage",), _AT, ("stage",)),
                Route(("status",), (), _AT),
            )
        },
        {"query": TEXT, "fields": _said(TEXT, "Comma-separated")},
    ),
    Tool(
        "describe",
        "What a machine's type allows (phases, transitions, guards), or the JSON Schema of an "
        "event type, `plan` or `answer`.",
        {
            "machine": (Route(("machine", "describe"), ("type",), {}, ("type",)),),
            "schema": (Route(("schema",), ("type",), {}, ("type",)),),
        },
        {"type": TEXT},
        ("type",),
    ),
    Tool(
        "history",
        "log: what happened. why: causes of a stage's status, or what would unblock. blame: who "
        "set a field. diff: between moments a and b. amendments: who changed what. events: raw, "
        "after a version. report: the whole, for people.",
        {
            "log": (Route(("log",), (), {**_HISTORY, "machine": "--machine"}),),
            "why": (
                Route(("why",), (), {"machine": "--machine", **_AT}, ("machine",)),
                Route(("why",), ("stage",), _AT, ("stage",)),
                Route(("why",), (), _AT),
            ),
            "blame": (Route(("blame",), ("field",), {"machine": "--machine", **_AT}, ("field",)),),
            "diff": (Route(("diff",), ("a", "b"), {"machine": "--machine"}, ("a",)),),
            "amendments": (Route(("audit", "amendments")),),
            "report": (Route(("report",)),),
            "events": (
                Route(
                    ("events",),
                    (),
                    {"machine": "--machine", "since": "--since", "limit": "--limit"},
                ),
            ),
        },
        {"field": _said(TEXT, "Such as stage-2.parameters.x"), "a": TEXT, "b": TEXT, "since": TEXT},
    ),
    Tool(
        "check",
        "results: outputs and inputs as recorded? files: hand edits? log: unaltered? plan: would "
        "a plan be taken?",
        {
            "results": (
                Route(("verify",), ("stage",), {"deep": "--deep"}, ("stage",)),
                Route(("verify",), (), {"deep": "--deep"}),
            ),
            "files": (
                Route(("machine", "drift"), ("machine",), {}, ("machine",)),
                Route(("drift", "show")),
            ),
            "log": (Route(("fsck",)),),
            "plan": (Route(("plan", "check"), ("plan",), {}, ("plan",)),),
        },
        {"deep": FLAG, "plan": _said(TEXT, "Its file")},
    ),
    Tool(
        "job",
        "Of a stage: diagnose says what failed, logs what its job printed, tasks each of a sweep.",
        {
            "diagnose": (Route(("stage", "diagnose"), ("stage",)),),
            "logs": (Route(("logs",), ("stage",), _LOGS),),
            "tasks": (Route(("tasks",), ("stage",), _TASKS),),
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
                Route(("machine", "rehydrate"), ("machine",), {}, ("machine",), ("--dry-run",)),
                Route(("amend", "show"), ("amendment",), {}, ("amendment",)),
                Route(("amend", "list"), (), {}, (), ("--state=proposed",)),
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
                Route(
                    ("machine", "rehydrate"),
                    ("machine",),
                    {**_ONCE, "task": "--resume-from"},
                    ("machine",),
                ),
                Route(("rehydrate",), (), {"tokens": "--brief"}),
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
            "workflow": (Route(("init",), ("plan",), _ONCE, ("plan",)),),
            "machine": (
                Route(
                    ("machine", "init"),
                    ("machine",),
                    {"type": "--type", "data": "--data", **_ONCE},
                    ("machine", "type"),
                ),
            ),
            "session": (Route(("session", "start"), (), _WRITE),),
        },
        {"plan": TEXT, "type": TEXT, "data": _DATA},
        writes=True,
    ),
    Tool(
        "update",
        "Set fields of a machine's state; never its phase.",
        {
            None: (
                Route(
                    ("machine", "update"),
                    ("machine",),
                    {"data": "--data", **_WRITE},
                    ("machine", "data"),
                ),
            )
        },
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
                Route(
                    ("machine", "task", "claim"),
                    ("machine", "task"),
                    {"claim": "--for", "renew": "--renew", "under": "--under", **_WRITE},
                    ("machine", "task", "claim"),
                ),
                Route(
                    ("machine", "task", "release"),
                    ("machine", "task"),
                    {"release": "--reason", "under": "--under", **_WRITE},
                    ("machine", "task", "release"),
                ),
                Route(
                    ("machine", "task"),
                    ("machine", "task"),
                    {
                        "status": "--status",
                        "title": "--title",
                        "reason": "--reason",
                        "under": "--under",
                        **_WRITE,
                    },
                    ("machine", "task"),
                ),
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
                Route(
                    ("machine", "transition"),
                    ("machine", "phase"),
                    {"reason": "--reason", **_WRITE},
                    ("machine", "phase"),
                ),
                Route(
                    ("machine", "transition"),
                    ("machine",),
                    {"reason": "--reason", **_WRITE},
                    ("machine",),
                    ("--auto",),
                ),
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
                Route(
                    ("machine", "checkpoint"),
                    ("machine",),
                    {"summary": "--summary", "next": "--next", **_WRITE},
                    ("machine", "summary"),
                ),
                Route(("stage", "checkpoint"), ("stage", "data"), _WRITE, ("stage", "data")),
                Route(
                    ("session", "end"),
                    (),
                    {"end": "--reason", "next": "--next", **_WRITE},
                    ("end",),
                ),
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
                Route(
                    ("machine", "append"),
                    ("machine", "event"),
                    {"data": "--data", **_WRITE},
                    ("machine", "event"),
                ),
                Route(("note",), ("note",), {"stage": "--stage", **_WRITE}, ("note",)),
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
            "ready": (Route(("stage", "ready"), ("stage",), _WRITE),),
            "prepare": (Route(("stage", "prepare"), ("stage",), _WRITE),),
            "dispatch": (Route(("dispatch",), ("stage",), _WRITE),),
            "wait": (Route(("wait",), ("stage",), {"seconds": "--timeout"}),),
            "verify": (Route(("stage", "verify"), ("stage",)),),
            "complete": (
                Route(
                    ("stage", "complete"),
                    ("stage",),
                    {"evidence": "--evidence", "or_fail": "--or-fail", **_WRITE},
                ),
            ),
            "retry": (Route(("stage", "retry"), ("stage",), {"fix": "--fix", **_WRITE}, ("fix",)),),
            "fail": (
                Route(
                    ("stage", "fail"),
                    ("stage",),
                    {"error": "--error", "category": "--category", **_WRITE},
                    ("error",),
                ),
            ),
            "outputs": (Route(("stage", "outputs"), ("stage", "paths"), _WRITE, ("paths",)),),
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
                Route(
                    ("amend", "propose"),
                    (),
                    {
                        "stages": "--stage",
                        "set": "--set",
                        "unset": "--unset",
                        "reason": "--reason",
                        "type": "--type",
                        "insert": "--insert",
                        "place": "--place",
                        "dry_run": "--dry-run",
                        **_WRITE,
                    },
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
