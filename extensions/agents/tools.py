"""The MCP tools: their fields, and the wfctl command lines that their calls run.

These tools cover everything that an agent may do. They deliberately exclude approvals, the choice
of the actor, keys and consent, permanent cancellation, the adoption or removal of manual edits, and
databases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from extensions.machines.rules.definition import CANCELLED

Schema = dict[str, Any]

#: Mark after the name of a field → JSON Schema of the field.
_KINDS: dict[str, Schema] = {
    "": {"type": "string"},
    "#": {"type": "integer"},
    "?": {"type": "boolean"},
    "*": {"type": "array", "items": {"type": "string"}},
    ".": {"type": "object"},
}


def _build_fields(words: str, **said: str) -> dict[str, Schema]:
    """Return the JSON Schemas of the named fields, with their descriptions.

    A mark after a name gives the type: none for a string, ``#`` for an integer, ``?`` for a
    boolean, ``*`` for a list, ``.`` for an object. In ``n#100``, the maximum is 100.
    """
    found: dict[str, Schema] = {}
    for name, mark, most in re.findall(r"(\w+)([#?*.]?)(\d*)", words):
        more: Schema = {"maximum": int(most)} if most else {}
        told = {"description": said[name]} if name in said else {}
        found[name] = {**_KINDS[mark], **more, **told}
    return found


#: Fields that several tools have in common.
FIELDS = _build_fields(
    "root stage machine request_id expected_version# at reason limit# tokens#1500",
    request_id="Your unique id; a repeated call runs once",
    at="Version, time, session:3",
)


class Route(NamedTuple):
    """A command line to which calls of a tool are converted.

    ``words`` name the command. ``places`` are the fields with its positional arguments, in order.
    ``options`` maps fields to options. The route applies only if the call has all fields in
    ``needs``. ``fixed`` are words that the command line always contains.
    """

    words: tuple[str, ...]
    places: tuple[str, ...]
    options: Mapping[str, str]
    needs: tuple[str, ...]
    fixed: tuple[str, ...]

    @property
    def fields(self) -> frozenset[str]:
        """The fields that a call of this route may have."""
        return frozenset((*self.places, *self.options))


def find_withheld_command(route: Route, given: Mapping[str, Any]) -> str | None:
    """Return the command for a person if no tool may run this call, or None if a tool may.

    A transition to the phase `cancelled` is withheld, because it is a cancellation.
    """
    if route.words == ("machine", "transition") and given.get("phase") == CANCELLED:
        return f"wfctl machine cancel {given['machine']}"
    return None


class Tool(NamedTuple):
    """An MCP tool: its name, description, own fields, and routes by ``action``.

    A route is a command line to which calls are converted. A tool without actions has its routes
    under None. ``decided_by`` is the command with which a person decides about the ``amendment``
    (plan change) that a call shows. ``destroys`` is true if a call may end or replace existing
    things. ``reaches_out`` is true if a call contacts schedulers.
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
        """The boolean fields of the tool. They are either true or missing."""
        return frozenset(name for name, said in self.own.items() if said["type"] == "boolean")

    @property
    def schema(self) -> Schema:
        """The JSON Schema of the arguments of a call."""
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


#: Abbreviations in the route texts → the options of writing commands for which they stand.
_SHORT = {"WRITE": "ONCE expected_version", "ONCE": "request_id=--command-id"}


def _parse_route(line: str) -> Route:
    """Return the route that a text describes.

    The text has the form ``command {place} --fixed | field other=--option``. A field with a final
    ``!`` is required. ``WRITE`` and ``ONCE`` stand for the options of writing commands.
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


def _build_tool(
    name: str, says: str, lines: str | Mapping[str, str], own: Mapping[str, Schema], **more: Any
) -> Tool:
    """Return an MCP tool.

    ``lines`` contains the texts of its routes, separated by ``;``, or maps each action to such
    texts.
    """
    by_action: Mapping[Any, str] = {None: lines} if isinstance(lines, str) else lines
    routes = {
        action: tuple(map(_parse_route, some.split(";"))) for action, some in by_action.items()
    }
    return Tool(name, says, routes, own, **more)


READING = (
    _build_tool(
        "brief",
        "Show the current state and what to do next. Call this first, and after you lose context.",
        "machine rehydrate {machine!} --dry-run; rehydrate --dry-run | tokens=--brief",
        {},
    ),
    _build_tool(
        "list",
        "List the workflow and all machines, with phase, age and blockers.",
        "machine list | type phase limit",
        _build_fields("type phase"),
    ),
    _build_tool(
        "get",
        "Show a stage with its attempts, a machine or a part of it (query: dot path), what "
        "to propose for a loop, or the workflow's status.",
        "machine get {machine!} | query fields at; show {stage!} | at;"
        "round ask {loop!}; status | at",
        _build_fields("query fields loop", fields="Comma-separated"),
    ),
    _build_tool(
        "describe",
        "Describe a type of machine (phases, transitions, guards), or print the JSON "
        "Schema of an event type, `plan` or `answer`.",
        {"machine": "machine describe {type!}", "schema": "schema {type!}"},
        _build_fields("type"),
        required=("type",),
    ),
    _build_tool(
        "history",
        "Show the past. log: what happened. why: causes of a stage's status, or what unblocks the "
        "workflow. blame: who set a field. diff: changes from moment a to b. amendments: changes "
        "of the plan. events: raw events since a version. report: a summary for people.",
        {
            "log": "log | limit stage at machine",
            "why": "why | machine! at; why {stage!} | at task; why | at",
            "blame": "blame {field!} | machine at",
            "diff": "diff {a!} {b} | machine",
            "amendments": "audit amendments",
            "report": "report",
            "events": "events | machine since limit",
        },
        _build_fields("field a b since", field="e.g. stage-2.parameters.x"),
    ),
    _build_tool(
        "check",
        "Check that results and inputs match the log (results), no file was edited by hand "
        "(files), the log is unchanged (log), or a plan is valid (plan).",
        {
            "results": "verify {stage!} | deep; verify | deep",
            "files": "machine drift {machine!}; drift show",
            "log": "fsck",
            "plan": "plan check {plan!}",
        },
        _build_fields("deep? plan", plan="Plan file"),
    ),
    _build_tool(
        "job",
        "For one stage: diagnose its failure, print its job's output (logs), or list the "
        "tasks of a sweep.",
        {
            "diagnose": "stage diagnose {stage}",
            "logs": "logs {stage} | attempt task err lines",
            "tasks": "tasks {stage} | failed where lines",
        },
        _build_fields("attempt task failed? where* err? lines#", where="Conditions, e.g. T>2"),
        required=("stage",),
    ),
    _build_tool(
        "ask_person",
        "Show what a person must decide (an amendment with its impact, or approvals of a machine) "
        "and the command for it. Give the person this command and continue with other work.",
        "machine rehydrate {machine!} --dry-run; amend show {amendment!};"
        "amend list --state=proposed",
        _build_fields("amendment"),
        decided_by="wfctl amend approve {amendment}",
    ),
)

_PATHS = "Dot path → value"
#: Statuses of the built-in machine types. A user-defined type has its own statuses.
STATUSES = (
    "pending, in_progress, complete, failed; dotagent: pending, running, pre_complete, "
    "blocked, verified, failed; `describe` lists those of other types"
)

WRITING = (
    _build_tool(
        "recover",
        "After a crash or lost session: compare the log with files, jobs and scheduler, "
        "repair differences, and show the brief.",
        "machine rehydrate {machine!} | ONCE task=--resume-from; rehydrate | tokens=--brief",
        _build_fields("task"),
    ),
    _build_tool(
        "begin",
        "Start a workflow from a plan file (a person approves the plan), a machine of a "
        "type, or a session.",
        {
            "workflow": "init {plan!} | ONCE",
            "machine": "machine init {machine!} | type! data ONCE",
            "session": "session start | WRITE",
        },
        _build_fields("plan type data.", data=_PATHS),
    ),
    _build_tool(
        "update",
        "Set fields of a machine's state, except its phase.",
        "machine update {machine!} | data! WRITE",
        _build_fields("data.", data=_PATHS),
        required=("machine", "data"),
    ),
    _build_tool(
        "task",
        "Add or change a task of a machine. claim reserves the task for a time (30m); other calls "
        "then need the claim's handle (under). renew extends your claim. release ends it.",
        "machine task claim {machine!} {task!} | claim!=--for renew under WRITE;"
        "machine task release {machine!} {task!} | release!=--reason under WRITE;"
        "machine task {machine!} {task!} | status title reason under WRITE",
        _build_fields(
            "task status title claim renew? release under",
            status=STATUSES,
            claim="e.g. 30m",
            release="Reason",
            under="Your claim's handle",
        ),
        required=("machine", "task"),
    ),
    _build_tool(
        "transition",
        "Move a machine to a phase. Without phase, take the only open transition.",
        "machine transition {machine!} {phase!} | reason WRITE;"
        "machine transition {machine!} --auto | reason WRITE",
        _build_fields("phase"),
        required=("machine",),
    ),
    _build_tool(
        "checkpoint",
        "Before you stop: record a hand-off of a machine (summary, next) or from where a "
        "stage can continue (data), or end the session (end).",
        "machine checkpoint {machine!} | summary! next WRITE;"
        "stage checkpoint {stage!} {data!} | WRITE; session end | end!=--reason next WRITE",
        _build_fields("summary next* data.")
        | {"end": {**_KINDS[""], "enum": ["completed", "blocked", "budget_exhausted", "waiting"]}},
    ),
    _build_tool(
        "record",
        "Record a note, or an event that a machine's definition names.",
        "machine append {machine!} {event!} | data WRITE; note {note!} | stage WRITE",
        _build_fields("note event data."),
    ),
    _build_tool(
        "stage",
        "Work on a stage: prepare, dispatch, wait, verify, complete. After a failure: retry (fix: "
        "what you fixed). fail (error) ends an attempt. outputs records output files.",
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
        _build_fields(
            "fix error category evidence or_fail? seconds#100 paths*",
            evidence="Why the success criteria are met",
        ),
        required=("stage",),
        destroys=True,
        reaches_out=True,
    ),
    _build_tool(
        "propose",
        "Propose a change of the plan (parameters, criteria, rerun, skip), or the next "
        "points of a loop. A person or a mandate decides.",
        "round propose {loop!} | points! reason WRITE;"
        "amend propose | stages=--stage set unset reason type insert place from_round dry_run "
        "WRITE",
        _build_fields(
            "stages* set. unset* type insert. place# from_round# dry_run? loop points",
            set=_PATHS,
            type="stage_rerun, stage_insert, stage_skip",
            insert="Definition of a new stage",
            points="JSON list of points",
        ),
        required=("reason",),
    ),
)

TOOLS = {tool.name: tool for tool in (*READING, *(one._replace(writes=True) for one in WRITING))}
