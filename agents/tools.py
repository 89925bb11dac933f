"""The tools: what each takes, and the command lines that it stands for.

A table and nothing else, so that what is not in it is not on offer: agreeing in a person's name,
saying who acts, keys and consent, giving up for good, taking over or undoing hand edits, databases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from lifecycle.machines.definition import CANCELLED

Schema = dict[str, Any]

#: What a field is, by the mark behind its name.
_KINDS: dict[str, Schema] = {
    "": {"type": "string"},
    "#": {"type": "integer"},
    "?": {"type": "boolean"},
    "*": {"type": "array", "items": {"type": "string"}},
    ".": {"type": "object"},
}


def _fields(words: str, **said: str) -> dict[str, Schema]:
    """Return fields in their order, with what is said of them; ``n#100`` is at most that."""
    found: dict[str, Schema] = {}
    for name, mark, most in re.findall(r"(\w+)([#?*.]?)(\d*)", words):
        more: Schema = {"maximum": int(most)} if most else {}
        told = {"description": said[name]} if name in said else {}
        found[name] = {**_KINDS[mark], **more, **told}
    return found


#: What tools of several kinds take.
FIELDS = _fields(
    "root stage machine request_id expected_version# at reason limit# tokens#1500",
    request_id="Yours; repeated: first answer, nothing twice",
    at="Version, time, session:3",
)


class Route(NamedTuple):
    """A command line that a tool stands for.

    ``words`` name the command, ``places`` the arguments that it takes by place, in order;
    ``options`` tells field → option. ``needs``: fields without which it is another route's.
    ``fixed``: words that it always has.
    """

    words: tuple[str, ...]
    places: tuple[str, ...]
    options: Mapping[str, str]
    needs: tuple[str, ...]
    fixed: tuple[str, ...]

    @property
    def fields(self) -> frozenset[str]:
        """What it takes."""
        return frozenset((*self.places, *self.options))


def find_withheld_command(route: Route, given: Mapping[str, Any]) -> str | None:
    """Return the command of a person for a call that no tool offers; None if a tool offers it.

    A transition to the phase `cancelled` is a cancellation by another name.
    """
    if route.words == ("machine", "transition") and given.get("phase") == CANCELLED:
        return f"wfctl machine cancel {given['machine']}"
    return None


class Tool(NamedTuple):
    """A tool: its own fields, and for each ``action`` its routes; None if it has no actions.

    ``decided_by``: the command with which a person decides of the ``amendment`` that it shows.
    ``destroys``: it may end or replace what is there; ``reaches_out``: it speaks to schedulers.
    """

    name: str
    says: str
    routes: Mapping[str | None, tuple[Route, ...]]
    own: Mapping[str, Schema]
    required: tuple[str, ...] = ()
    writes: bool = False
    decided_by: str = ""
    destroys: bool = False
    reaches_out: bool = False

    @property
    def flags(self) -> frozenset[str]:
        """Its fields that are true or are left out."""
        return frozenset(name for name, said in self.own.items() if said["type"] == "boolean")

    @property
    def schema(self) -> Schema:
        """JSON Schema of its arguments."""
        taken: set[str] = set().union(*(r.fields for some in self.routes.values() for r in some))
        actions = [action for action in self.routes if action is not None]
        properties: dict[str, Schema] = {"action": {**_KINDS[""], "enum": actions}}
        known = {**FIELDS, **self.own}
        properties |= {name: one for name, one in known.items() if name in taken}
        properties["root"] = FIELDS["root"]
        required = ["action", *self.required]
        if not actions:
            del properties["action"], required[0]
        needs = {"required": required} if required else {}
        return {"type": "object", "properties": properties, **needs}


#: Options of writes.
_SHORT = {"WRITE": "ONCE expected_version", "ONCE": "request_id=--command-id"}


def _route(line: str) -> Route:
    """Return a route: ``command {place} --fixed | field other=--option``; with ``!`` it is needed.

    ``WRITE`` and ``ONCE`` stand for the options of writes.
    """
    for short, whole in _SHORT.items():
        line = line.replace(short, whole)
    command, _, options = line.partition("|")
    words = command.split()
    named = [field.partition("=") for field in options.split()]
    marked = [word.strip("{}") for word in words] + [each for each, _, _ in named]
    return Route(
        words=tuple(word for word in words if word[0] not in "{-"),
        places=tuple(word.strip("{!}") for word in words if word[0] == "{"),
        options={
            (name := each.rstrip("!")): way or f"--{name.replace('_', '-')}"
            for each, _, way in named
        },
        needs=tuple(each[:-1] for each in marked if each.endswith("!")),
        fixed=tuple(word for word in words if word[0] == "-"),
    )


def _tool(
    name: str, says: str, lines: str | Mapping[str, str], own: Mapping[str, Schema], **more: Any
) -> Tool:
    """Return a tool; ``lines`` are its routes, or by action those of each, parted by ``;``."""
    by_action: Mapping[Any, str] = {None: lines} if isinstance(lines, str) else lines
    routes = {action: tuple(map(_route, some.split(";"))) for action, some in by_action.items()}
    return Tool(name, says, routes, own, **more)


READING = (
    _tool(
        "brief",
        "Where the work stands and what to do next; call it first, and whenever you lost track.",
        "machine rehydrate {machine!} --dry-run; rehydrate --dry-run | tokens=--brief",
        {},
    ),
    _tool(
        "list",
        "All machines, and the staged workflow, with phase, age and blockers.",
        "machine list | type phase limit",
        _fields("type phase"),
    ),
    _tool(
        "get",
        "One stage with its attempts, one machine or a part of it (query: dot path), what a loop "
        "asks for, or the workflow's status.",
        "machine get {machine!} | query fields at; show {stage!} | at;"
        "round ask {loop!}; status | at",
        _fields("query fields loop", fields="Comma-separated"),
    ),
    _tool(
        "describe",
        "What a machine's type allows (phases, transitions, guards), or the JSON Schema of an "
        "event type, `plan` or `answer`.",
        {"machine": "machine describe {type!}", "schema": "schema {type!}"},
        _fields("type"),
        required=("type",),
    ),
    _tool(
        "history",
        "log: what happened. why: of a stage's status or a task, or what would unblock. blame: who "
        "set a field. diff: between moments a and b. amendments: who changed what. events: raw, "
        "after a version. report: the whole, for people.",
        {
            "log": "log | limit stage at machine",
            "why": "why | machine! at; why {stage!} | at task; why | at",
            "blame": "blame {field!} | machine at",
            "diff": "diff {a!} {b} | machine",
            "amendments": "audit amendments",
            "report": "report",
            "events": "events | machine since limit",
        },
        _fields("field a b since", field="Such as stage-2.parameters.x"),
    ),
    _tool(
        "check",
        "results: outputs and inputs as recorded? files: hand edits? log: unaltered? plan: would "
        "a plan be taken?",
        {
            "results": "verify {stage!} | deep; verify | deep",
            "files": "machine drift {machine!}; drift show",
            "log": "fsck",
            "plan": "plan check {plan!}",
        },
        _fields("deep? plan", plan="Its file"),
    ),
    _tool(
        "job",
        "Of a stage: diagnose says what failed, logs what its job printed, tasks each of a sweep.",
        {
            "diagnose": "stage diagnose {stage}",
            "logs": "logs {stage} | attempt task err lines",
            "tasks": "tasks {stage} | failed where lines",
        },
        _fields("attempt task failed? where* err? lines#"),
        required=("stage",),
    ),
    _tool(
        "ask_person",
        "What waits for a person: shows an amendment with its impact, or a machine's approvals, "
        "and the command that only a person runs. Tell it to them and go on with other work.",
        "machine rehydrate {machine!} --dry-run; amend show {amendment!};"
        "amend list --state=proposed",
        _fields("amendment"),
        decided_by="wfctl amend approve {amendment}",
    ),
)

_PATHS = "Dot path → value"
#: Of the types that come with wfctl; a type of one's own names its own.
STATUSES = (
    "pending, in_progress, complete, failed; dotagent: pending, running, pre_complete, blocked, "
    "verified, failed; `describe` has those of other types"
)

WRITING = (
    _tool(
        "recover",
        "After a crash or a lost session: compare log, files, jobs and scheduler, repair, and "
        "brief you.",
        "machine rehydrate {machine!} | ONCE task=--resume-from; rehydrate | tokens=--brief",
        _fields("task"),
    ),
    _tool(
        "begin",
        "A workflow from a plan file (a person approves the plan), a machine of a type, or a "
        "session of work.",
        {
            "workflow": "init {plan!} | ONCE",
            "machine": "machine init {machine!} | type! data ONCE",
            "session": "session start | WRITE",
        },
        _fields("plan type data.", data=_PATHS),
    ),
    _tool(
        "update",
        "Set fields of a machine's state; never its phase.",
        "machine update {machine!} | data! WRITE",
        _fields("data.", data=_PATHS),
        required=("machine", "data"),
    ),
    _tool(
        "task",
        "Add a task of a machine, or change one. claim: take it for a time (30m), so that only "
        "who shows its handle changes it (under); renew goes on with yours. release gives it back.",
        "machine task claim {machine!} {task!} | claim!=--for renew under WRITE;"
        "machine task release {machine!} {task!} | release!=--reason under WRITE;"
        "machine task {machine!} {task!} | status title reason under WRITE",
        _fields(
            "task status title claim renew? release under",
            status=STATUSES,
            claim="How long",
            release="Why",
            under="Your claim's handle",
        ),
        required=("machine", "task"),
    ),
    _tool(
        "transition",
        "Take a machine to another phase; without one, the only way that is open.",
        "machine transition {machine!} {phase!} | reason WRITE;"
        "machine transition {machine!} --auto | reason WRITE",
        _fields("phase"),
        required=("machine",),
    ),
    _tool(
        "checkpoint",
        "Leave a hand-off before you stop: of a machine (summary, next), of a stage (data: where "
        "it can go on from), or end the session (end).",
        "machine checkpoint {machine!} | summary! next WRITE;"
        "stage checkpoint {stage!} {data!} | WRITE; session end | end!=--reason next WRITE",
        _fields("summary next* data.")
        | {"end": {**_KINDS[""], "enum": ["completed", "blocked", "budget_exhausted", "waiting"]}},
    ),
    _tool(
        "record",
        "A note for the log, or an event that a machine's definition names.",
        "machine append {machine!} {event!} | data WRITE; note {note!} | stage WRITE",
        _fields("note event data."),
    ),
    _tool(
        "stage",
        "prepare → dispatch → wait → verify → complete; retry (fix: what was put right) after a "
        "failure; fail (error) gives an attempt up; outputs declares files.",
        {
            "ready": "stage ready {stage} | WRITE",
            "prepare": "stage prepare {stage} | WRITE",
            "dispatch": "dispatch {stage} | WRITE",
            "wait": "wait {stage} | seconds=--timeout",
            "verify": "stage verify {stage}",
            "complete": "stage complete {stage} | evidence or_fail WRITE",
            "retry": "stage retry {stage} | fix! WRITE",
            "fail": "stage fail {stage} | error! category WRITE",
            "outputs": "stage outputs {stage} {paths!} | WRITE",
        },
        _fields(
            "fix error category evidence or_fail? seconds#100 paths*",
            evidence="What shows that criteria in prose hold",
        ),
        required=("stage",),
        destroys=True,
        reaches_out=True,
    ),
    _tool(
        "propose",
        "Propose a change of definition (parameters, criteria, rerun, skip); a "
        "person decides, or a mandate. set: dot path → value. Of a loop: its next points.",
        "round propose {loop!} | points! reason WRITE;"
        "amend propose | stages=--stage set unset reason type insert place from_round dry_run "
        "WRITE",
        _fields(
            "stages* set. unset* type insert. place# from_round# dry_run? loop points",
            set=_PATHS,
            type="stage_rerun, stage_insert, stage_skip",
            insert="A new stage",
            points="JSON list",
        ),
        required=("reason",),
    ),
)

TOOLS = {tool.name: tool for tool in (*READING, *(one._replace(writes=True) for one in WRITING))}
