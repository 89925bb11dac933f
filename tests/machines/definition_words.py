"""What each key of a definition is for, in words: the reference page is made from them."""

from __future__ import annotations

from typing import Any

from lifecycle.machines import definition as d
from lifecycle.machines import guard as g

_NEW = "`phase`: it must have been written since the phase was entered"

WORDS: dict[type[Any], dict[str, str]] = {
    d.Definition: {
        "id": "its name; letters, digits, `.`, `_`, `-`",
        "version": "a number of your own, from 1",
        "title": "its purpose, in a line",
        "protocol": "whose files it writes; `exarchos` for one of your own",
        "id_pattern": "regular expression for the ids of machines",
        "initial": "the phase it begins in",
        "phases": "name → phase",
        "transitions": "the ways from phase to phase",
        "loops": "name → loop, for ways that lead back",
        "approvals": "name → what a person decides in a phase",
        "fields": "field → shape, of each field that a guard names",
        "defaults": "field → its value before it is written",
        "reserved": "field → the command in place of a write",
        "statuses": "the statuses of phases",
        "events": "name → event that `wfctl machine append` records",
        "tasks": "the statuses of tasks; without it a machine has no tasks",
        "blockers": "hindrances, told at `rehydrate`",
        "files": "role → path; `exarchos` has `state`; `{id}` is the id of the machine",
    },
    d.Phase: {
        "asks": "the work of this phase",
        "final": "nothing leads out; at least one phase is final",
        "track": "the group it belongs to in the drawing",
        "person": "`decides`: each way out that no loop counts takes an approval; `advises`",
        "agent": "who does the work, by default",
        "status": "its status on entry, else `statuses.initial`",
        "output": "the file that it yields",
        "options": "pattern of the files that a person chooses among",
        "due": "minutes, or `7d`, after which progress is called late",
    },
    d.Transition: {
        "from": "the phase it leads out of",
        "to": "the phase it leads to",
        "guard": "the condition; without one the way is always open",
        "loop": "the loop that counts it",
        "resets": "loops that begin anew; only if the guard asks for an approval",
        "unbounded": "a cycle through here needs no limit",
    },
    d.Loop: {
        "limit": "how often it may be taken",
        "on_limit": "the phase after the limit; outside the cycle",
        "limit_from": "a field that holds another limit for one machine",
    },
    d.Approval: {"phase": "where it is given", "asks": "the question"},
    d.Statuses: {"initial": "the one it begins with", "values": "all of them"},
    d.EventKind: {
        "says": "its meaning",
        "data": "field → shape of its data",
        "required": "required fields of its data",
        "status": "the status that it gives the phase",
        "after": "statuses in which it may be recorded; empty: any",
        "of_phase": "its data belongs to the phase",
        "starts": "the work on the phase begins",
        "open": "data of other names is kept too",
        "completes": "the work on the phase is done; asks for its output",
    },
    d.Tasks: {
        "path": "the field that holds them",
        "pattern": "regular expression for their ids",
        "statuses": "their statuses, the first on entry",
        "running": "the status of one at work",
        "done": "the status of one that is done",
        "failed": "the status of one that failed",
        "started_field": "the field of its start time",
        "completed_field": "the field of its end time",
        "attempts_field": "the field that counts its attempts",
        "most_attempts": "how often it may run",
        "beyond": "the approval with which it may run more often",
    },
    d.Blocker: {"when": "a guard", "says": "its meaning"},
    g.Present: {"present": "a field that has a value", "newer_than": _NEW},
    g.Equals: {"field": "a field", "equals": "its value, of its shape", "newer_than": _NEW},
    g.HasCommit: {
        "commit": "a field that holds the id of a commit",
        "newer_than": "`phase`: it must have been made since the phase was entered",
    },
    g.Counter: {"counter": "a loop", "at_least": "taken so often", "below": "and less often"},
    g.Every: {
        "every": "a list or object with at least one item",
        "status": "the allowed statuses",
        "including": "items that must be among them",
        "newer_than": "`phase`: each status must have been written since the phase was entered",
    },
    g.Some: {
        "some": "a list or object",
        "status": "the statuses of which one item has one",
        "newer_than": "`phase`: that status must have been written since the phase was entered",
    },
    g.Recorded: {"recorded": "an event of `events` that was recorded"},
    g.Approved: {"approved": "an approval of this phase, given in this stay"},
    g.HasFile: {
        "file": "a path or pattern below the root; `*` stands for any name",
        "form": "`json`: it must be JSON with something in it",
        "newer_than": _NEW,
    },
    g.StatusIs: {"phase_status": "the status of the phase"},
    g.LimitOf: {"limit_of": "the loop whose limit led into this phase"},
    g.All: {"all": "guards, each of which is met"},
    g.AnyOf: {"any": "guards, one of which is met"},
    g.Not: {"not": "a guard that is not met"},
}
