"""What somebody must know who comes back to a machine, within a bound of bytes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from lifecycle.machines.guard import FileFact, unmet
from lifecycle.machines.machine import Machine
from projections.machines.next_actions import blockers, machine_actions
from projections.words.text import utc_seconds

Document = dict[str, Any]
#: The bound in bytes where none is given, and the least that makes sense.
BOUND, LEAST = 5_120, 1_024
#: Longest texts and longest lists; a part goes from one to the next until the whole fits.
_CUTS = tuple((max(int(8_000 * 0.7**n), 12), max(int(800 * 0.7**n), 1)) for n in range(20))
#: Parts that are worth more than their size: they are cut after others that are as large.
_WORTH = {"handoff": 4, "resume": 4, "phase": 4, "blockers": 2, "drift": 2}
#: A command in a text: to the end of its quotes, else of its line.
_COMMAND = re.compile(r"`wfctl [^`]*`|wfctl [^`\n]*")
#: Parts that are left out last, if nothing else helps.
_SPARED = frozenset({"v", "workflow", "nextAction", "cut"})


def briefing(
    machine: Machine,
    files: Mapping[str, FileFact],
    drift: Sequence[Document],
    bound: int = BOUND,
    resume: Document | None = None,
    now: str | None = None,
) -> Document:
    """Return the document; ``cut`` says what was left out to stay within the bound.

    ``resume`` is where the protocol goes on, where it says so; it counts towards the bound.
    ``now`` (UTC) tells whether progress is late.
    """
    actions = machine_actions(machine, files, changed_in(drift))
    done = machine.definition.tasks.done if machine.definition.tasks is not None else None
    handoff = machine.handoff
    whole: Document = {
        "v": 1,
        "workflow": {
            "id": machine.id,
            "type": machine.definition.id,
            "phase": machine.phase,
            "status": machine.status,
            "version": machine.head,
            "updated": utc_seconds(machine.updated),
            "loops": dict(machine.counts),
        },
        "phase": _phase(machine, files),
        "taskProgress": {
            "total": len(machine.tasks),
            "byStatus": dict(Counter(str(task.get("status")) for task in machine.tasks)),
            "open": [_task(machine, task) for task in machine.tasks if task.get("status") != done],
        },
        "decisions": _decisions(machine),
        "artifacts": machine.document.get("artifacts") or {},
        "blockers": blockers(machine, files, now),
        "handoff": handoff
        and {
            "summary": handoff.summary,
            "nextSteps": handoff.next,
            "phase": handoff.phase,
            "at": utc_seconds(handoff.at),
        },
        "nextAction": actions[0].to_dict() if actions else None,
        "drift": list(drift),
        "cut": [],
    }
    if resume is not None:
        whole["resume"] = resume
    return _bounded(whole, max(bound, LEAST))


def changed_in(drift: Sequence[Document]) -> list[str]:
    """Return the files of the machine that others changed and nobody recorded yet."""
    return [str(one["file"]) for one in drift if one["kind"] == "file_changed"]


def _phase(machine: Machine, files: Mapping[str, FileFact]) -> Document:
    if machine.is_final:
        return {"asks": "", "person": False, "mayGoTo": []}
    phase = machine.definition.phases[machine.phase]
    facts = machine.facts(files)
    ways = [
        {"to": way.to, "needs": [one["condition"] for one in unmet(way.guard, facts)]}
        for way in machine.ways
    ]
    return {"asks": phase.asks, "person": phase.person, "mayGoTo": ways}


def _task(machine: Machine, task: Document) -> Document:
    told = {name: task.get(name) for name in ("id", "title", "status")}
    held = machine.leases.get(str(task.get("id")))
    claim = held and {"claimedBy": held.by, "claimedUntil": utc_seconds(held.until)}
    return told | (claim or {})


def _decisions(machine: Machine) -> list[Document]:
    found = [
        {"at": note["at"], "what": note["data"]["text"], "why": note["data"].get("reason")}
        for note in machine.notes
        if note["name"] == "decision.recorded"
    ]
    for given in machine.given:
        imported = f"the imported file says: {given.phase} approved"
        what = imported if given.approval is None else f"approved: {given.approval}"
        found.append({"at": given.at, "what": what, "by": given.by})
    found += [
        {"at": move.at, "what": f"{move.source} -> {move.to}", "why": move.reason}
        for move in machine.moves
        if move.reason is not None or move.is_diverted
    ]
    return sorted(found, key=lambda one: str(one["at"]), reverse=True)


def _size_of(document: Any) -> int:
    """Return how many bytes a document takes, indented as it is at a terminal."""
    return len(json.dumps(document, indent=2, ensure_ascii=False).encode())


def _bounded(whole: Document, bound: int) -> Document:
    """Return the document within ``bound`` bytes, saying in ``cut`` what was left out."""
    if _size_of(whole) <= bound:
        return whole
    levels = dict.fromkeys(whole.keys() - _SPARED, 0)
    shorter, lost = dict(whole), {key: Counter[str]() for key in levels}
    while levels:
        part = max(levels, key=lambda key: _size_of(shorter[key]) / _WORTH.get(key, 1))
        lost[part] = Counter()
        shorter[part] = _cut(whole[part], part, *_CUTS[levels[part]], lost[part])
        cut = sum(lost.values(), Counter[str]())
        told = [f"{place}: {number} left out" for place, number in cut.most_common(8)]
        shorter["cut"] = told + ([f"{len(cut) - 8} more places"] if len(cut) > 8 else [])
        if _size_of(shorter) <= bound:
            return shorter
        levels[part] += 1
        if levels[part] == len(_CUTS):
            del levels[part]
    parts = sorted(shorter.keys() - _SPARED, key=lambda key: len(json.dumps(shorter[key])))
    while parts and _size_of(shorter) > bound:
        name = parts.pop()
        shorter = {**shorter, name: None, "cut": [*shorter["cut"][:4], f"{name}: all left out"]}
    return shorter


def _cut(value: Any, place: str, text: int, items: int, cut: Counter[str]) -> Any:
    if isinstance(value, str) and len(value) > text:
        # A command is there whole or not at all.
        inside = (c for c in _COMMAND.finditer(value) if c.start() < text < c.end())
        kept = value[: next((c.start() for c in inside), text)]
        cut[f"{place} (characters)"] += len(value) - len(kept)
        return kept + "…"
    if isinstance(value, list):
        if len(value) > items:
            cut[f"{place} (items)"] += len(value) - items
        return [_cut(one, place, text, items, cut) for one in value[:items]]
    if isinstance(value, dict):
        fields = list(value.items())[: max(items, 12)]
        if len(value) > len(fields):
            cut[f"{place} (fields)"] += len(value) - len(fields)
        return {
            key[:text]: _cut(one, f"{place}.{key}"[:80], text, items, cut) for key, one in fields
        }
    return value
