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
        "title": "what it is, in a line",
        "protocol": "whose files it writes; `exarchos` for one of your own",
        "id_pattern": "regular expression for the ids of machines",
        "initial": "the phase it begins in",
        "phases": "name → phase",
        "transitions": "the ways from phase to phase",
        "loops": "name → loop, for ways that lead back",
        "approvals": "name → what a person decides in a phase",
        "fields": "field → shape; what guards look at stands here",
        "defaults": "field → its value where nothing was written",
        "reserved": "field → what is done instead of writing it",
        "statuses": "how a phase may stand, where it stands at something",
        "events": "name → event that `wfctl machine append` records",
        "tasks": "which statuses tasks go through; without it there are none",
        "blockers": "what holds the work up, told to whoever comes back",
        "files": "role → path; `exarchos` has `state`; `{id}` is the id of the machine",
    },
    d.Phase: {
        "asks": "what is to be done here",
        "final": "nothing leads out; at least one phase is final",
        "track": "the group it belongs to in the drawing",
        "person": "`decides`: each way out that no loop counts takes an approval; `advises`",
        "agent": "who does the work, by default",
        "status": "how it stands on entry, where that is not `statuses.initial`",
        "output": "the file that it yields",
        "options": "pattern of the files that a person chooses among",
        "due": "minutes, or `7d`, after which progress is late: told, and no more",
    },
    d.Transition: {
        "from": "the phase it leads out of",
        "to": "the phase it leads to",
        "guard": "what must be so; without one the way is always open",
        "loop": "the loop that counts it",
        "resets": "loops that begin anew; only where the guard asks for an approval",
        "unbounded": "a cycle through here needs no limit",
    },
    d.Loop: {
        "limit": "how often it may be taken",
        "on_limit": "the phase that it leads to once more; out of the cycle",
        "limit_from": "a field that holds another limit for one machine",
    },
    d.Approval: {"phase": "where it is given", "asks": "the question"},
    d.Statuses: {"initial": "the one it begins with", "values": "all of them"},
    d.EventKind: {
        "says": "what it means",
        "data": "field → shape of its data",
        "required": "fields of its data that must be there",
        "status": "what it sets the status of the phase to",
        "after": "statuses in which it may be recorded; empty: any",
        "of_phase": "its data belongs to the phase",
        "starts": "the work on the phase begins",
        "open": "data of other names is kept too",
        "completes": "the work on the phase is done; asks for its output",
    },
    d.Tasks: {
        "path": "the field that holds them",
        "pattern": "regular expression for their ids",
        "statuses": "what they go through, the first on entry",
        "running": "the status of one at work",
        "done": "the status of one that is done",
        "failed": "the status of one that failed",
        "started_field": "where the time of its start is written",
        "completed_field": "where the time of its end is written",
        "attempts_field": "where its attempts are counted",
        "most_attempts": "how often it may run",
        "beyond": "the approval with which it may run more often",
    },
    d.Blocker: {"when": "a guard", "says": "what it means"},
    g.Present: {"present": "a field that has a value", "newer_than": _NEW},
    g.Equals: {"field": "a field", "equals": "its value, of its shape", "newer_than": _NEW},
    g.HasCommit: {
        "commit": "a field that holds the id of a commit",
        "newer_than": "`phase`: it must have been made since the phase was entered",
    },
    g.Counter: {"counter": "a loop", "at_least": "taken so often", "below": "and less often"},
    g.Every: {
        "every": "a list or object with at least one item",
        "status": "what each item stands at, one of these",
        "including": "items that must be among them",
        "newer_than": "`phase`: each status must have been written since the phase was entered",
    },
    g.Some: {
        "some": "a list or object",
        "status": "what one item stands at, one of these",
        "newer_than": "`phase`: that status must have been written since the phase was entered",
    },
    g.Recorded: {"recorded": "an event of `events` that was recorded"},
    g.Approved: {"approved": "an approval of this phase, given in this stay"},
    g.HasFile: {
        "file": "a path or pattern below the root; `*` stands for any name",
        "form": "`json`: it must be JSON with something in it",
        "newer_than": _NEW,
    },
    g.StatusIs: {"phase_status": "how the phase stands"},
    g.LimitOf: {"limit_of": "the loop whose limit led into this phase"},
    g.All: {"all": "guards, each of which is met"},
    g.AnyOf: {"any": "guards, one of which is met"},
    g.Not: {"not": "a guard that is not met"},
}
