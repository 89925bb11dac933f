"""Descriptions of the keys of a machine definition, for the generated reference page."""

from __future__ import annotations

from typing import Any

from extensions.machines.rules import definition as d
from extensions.machines.rules import guard as g

_NEW = "`phase`: written since the machine entered the phase"

WORDS: dict[type[Any], dict[str, str]] = {
    d.Definition: {
        "id": "name of the definition; letters, digits, `.`, `_`, `-`",
        "version": "your version number, from 1",
        "title": "purpose, in one line",
        "protocol": "format of the files; use `exarchos` for your own definition",
        "id_pattern": "regular expression for machine ids",
        "initial": "first phase",
        "phases": "name → phase",
        "transitions": "transitions between phases",
        "loops": "name → loop, for transitions that lead back",
        "approvals": "name → decision of a person in a phase",
        "fields": "field → shape, for each field that a guard names",
        "defaults": "field → initial value",
        "reserved": "field that `update` refuses → command to use instead",
        "statuses": "statuses of phases",
        "events": "name → event that `wfctl machine append` records",
        "tasks": "statuses of tasks; without this key the machine has no tasks",
        "blockers": "problems that `rehydrate` reports",
        "files": "role → path; `exarchos` has the role `state`; `{id}` is the machine id",
    },
    d.Phase: {
        "asks": "instruction for this phase",
        "final": "the machine ends here; at least one phase is final",
        "track": "group in the diagram",
        "person": "`decides`: transitions, except counted loops, need approval; `advises`: none",
        "agent": "default agent",
        "status": "status on entry (default: `statuses.initial`)",
        "output": "output file",
        "options": "pattern of the files that a person chooses from",
        "due": "minutes, or text such as `7d`, after which the phase is late",
    },
    d.Transition: {
        "from": "phase before the transition",
        "to": "phase after the transition",
        "guard": "condition; without a guard the transition is always allowed",
        "loop": "loop that counts this transition",
        "resets": "loops whose count restarts; the guard must require an approval",
        "unbounded": "allow a cycle without a limit",
    },
    d.Loop: {
        "limit": "maximum number of repetitions",
        "on_limit": "next phase at the limit, outside the loop",
        "limit_from": "field with a different limit for one machine",
        "count_from": "field of an imported file that has the count so far",
    },
    d.Approval: {"phase": "phase of the approval", "asks": "question to the person"},
    d.Statuses: {"initial": "first status", "values": "all statuses"},
    d.EventKind: {
        "says": "meaning of the event",
        "data": "field → shape",
        "required": "required fields",
        "status": "new status of the phase",
        "after": "phase statuses that allow the event; empty: all",
        "of_phase": "the data belongs to the phase",
        "starts": "the event starts the work",
        "open": "also keep fields that `data` does not name",
        "completes": "the event completes the phase; requires its output",
    },
    d.Tasks: {
        "path": "field with the tasks",
        "pattern": "regular expression for task ids",
        "statuses": "statuses; a new task has the first",
        "running": "status of a running task",
        "done": "status of a completed task",
        "failed": "status of a failed task",
        "started_field": "field of the start time",
        "completed_field": "field of the end time",
        "attempts_field": "field that counts attempts",
        "most_attempts": "maximum number of attempts",
        "beyond": "approval that allows more attempts",
    },
    d.Blocker: {"when": "condition", "says": "message"},
    g.Present: {"present": "a field that has a value", "newer_than": _NEW},
    g.Equals: {"field": "a field", "equals": "a value that fits its shape", "newer_than": _NEW},
    g.HasCommit: {
        "commit": "a field that holds the id of a commit",
        "newer_than": "`phase`: made since the machine entered the phase",
    },
    g.Counter: {
        "counter": "a loop",
        "at_least": "minimum count",
        "below": "upper bound of the count, exclusive",
    },
    g.Every: {
        "every": "a list or object with at least one item",
        "status": "the allowed statuses",
        "including": "items that must exist",
        "newer_than": "`phase`: each status was written since the machine entered the phase",
    },
    g.Some: {
        "some": "a list or object",
        "status": "statuses to look for",
        "newer_than": "`phase`: that status was written since the machine entered the phase",
    },
    g.Recorded: {"recorded": "an event of `events` that was recorded"},
    g.Approved: {"approved": "an approval of this phase, given since the machine entered it"},
    g.HasFile: {
        "file": "a path or pattern below the root; `*` stands for any name",
        "form": "`json`: the file must hold JSON that is not empty",
        "newer_than": _NEW,
    },
    g.StatusIs: {"phase_status": "the status of the phase"},
    g.LimitOf: {"limit_of": "the loop whose limit led into this phase"},
    g.All: {"all": "guards, each of which is met"},
    g.AnyOf: {"any": "guards, one of which is met"},
    g.Not: {"not": "a guard that is not met"},
}
