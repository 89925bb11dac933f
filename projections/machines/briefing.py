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
#: Parts that are left out last, where nothing else helps.
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
    known = machine_actions(machine, files, changed_in(drift))
    actions = [action.to_dict() for action in known]
    whole: Document = {
        "v": 1,
        "workflow": _workflow(machine),
        "phase": _phase(machine, files),
        "taskProgress": _tasks(machine),
        "decisions": _decisions(machine),
        "artifacts": machine.document.get("artifacts") or {},
        "blockers": blockers(machine, files, now),
        "handoff": _handoff(machine),
        "nextAction": actions[0] if actions else None,
        "drift": list(drift),
        "cut": [],
    }
    if resume is not None:
        whole["resume"] = resume
    return bounded(whole, max(bound, LEAST))


def changed_in(drift: Sequence[Document]) -> list[str]:
    """Return the files of the machine that others changed and nobody recorded yet."""
    return [str(one["file"]) for one in drift if one["kind"] == "file_changed"]


def _workflow(machine: Machine) -> Document:
    return {
        "id": machine.id,
        "type": machine.definition.id,
        "phase": machine.phase,
        "status": machine.status,
        "version": machine.head,
        "updated": utc_seconds(machine.updated),
        "loops": dict(machine.counts),
    }


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


def _tasks(machine: Machine) -> Document:
    done = machine.definition.tasks.done if machine.definition.tasks is not None else None
    counted = Counter(str(task.get("status")) for task in machine.tasks)
    left = [
        {
            "id": task.get("id"),
            "title": task.get("title"),
            "status": task.get("status"),
            **_claim(machine, task),
        }
        for task in machine.tasks
        if task.get("status") != done
    ]
    return {"total": len(machine.tasks), "byStatus": dict(counted), "open": left}


def _claim(machine: Machine, task: Document) -> Document:
    held = machine.leases.get(str(task.get("id")))
    if held is None:
        return {}
    return {"claimedBy": held.by, "claimedUntil": utc_seconds(held.until)}


def _decisions(machine: Machine) -> list[Document]:
    """Return what was decided on the way, the newest first."""
    found = [
        {"at": note["at"], "what": note["data"]["text"], "why": note["data"].get("reason")}
        for note in machine.notes
        if note["name"] == "decision.recorded"
    ]
    for given in machine.given:
        what = f"the imported file says: {given.phase} approved"
        if given.approval is not None:
            what = f"approved: {given.approval}"
        found.append({"at": given.at, "what": what, "by": given.by})
    found += [
        {"at": move.at, "what": f"{move.source} -> {move.to}", "why": move.reason}
        for move in machine.moves
        if move.reason is not None or move.is_diverted
    ]
    return sorted(found, key=lambda one: str(one["at"]), reverse=True)


def _handoff(machine: Machine) -> Document | None:
    if machine.handoff is None:
        return None
    return {
        "summary": machine.handoff.summary,
        "nextSteps": machine.handoff.next,
        "phase": machine.handoff.phase,
        "at": utc_seconds(machine.handoff.at),
    }


def size_of(document: Any) -> int:
    """Return how many bytes a document takes, indented as it is at a terminal."""
    return len(json.dumps(document, indent=2, ensure_ascii=False).encode())


def bounded(whole: Document, bound: int) -> Document:
    """Return the document within ``bound`` bytes, saying in ``cut`` what was left out."""
    if size_of(whole) <= bound:
        return whole
    levels = dict.fromkeys(whole.keys() - _SPARED, 0)
    shorter, lost = dict(whole), {key: Counter[str]() for key in levels}
    while levels:
        part = max(levels, key=lambda key: size_of(shorter[key]) / _WORTH.get(key, 1))
        lost[part] = Counter()
        shorter[part] = _cut(whole[part], part, *_CUTS[levels[part]], lost[part])
        shorter["cut"] = _told(sum(lost.values(), Counter[str]()))
        if size_of(shorter) <= bound:
            return shorter
        levels[part] += 1
        if levels[part] == len(_CUTS):
            del levels[part]
    return _without_parts(shorter, bound)


def _told(cut: Counter[str]) -> list[str]:
    """Return what was cut, the largest first; of many places only the number."""
    lines = [f"{place}: {number} left out" for place, number in cut.most_common(8)]
    more = len(cut) - len(lines)
    return [*lines, f"{more} more places"] if more > 0 else lines


def _without_parts(shorter: Document, bound: int) -> Document:
    """Leave out whole parts, the longest first."""
    parts = sorted(shorter.keys() - _SPARED, key=lambda key: len(json.dumps(shorter[key])))
    while parts and size_of(shorter) > bound:
        name = parts.pop()
        shorter = {**shorter, name: None, "cut": [*shorter["cut"][:4], f"{name}: all left out"]}
    return shorter


def _cut(value: Any, place: str, text: int, items: int, cut: Counter[str]) -> Any:
    if isinstance(value, str) and len(value) > text:
        kept = _before_command(value, text)
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


def _before_command(text: str, length: int) -> str:
    """Return the beginning of a text; a command is there whole or not at all."""
    for command in _COMMAND.finditer(text):
        if command.start() < length < command.end():
            return text[: command.start()]
    return text[:length]
