"""Build the briefing with which an agent resumes a machine, within a size limit."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from extensions.machines.rules.guard import FileFact, list_unmet
from extensions.machines.rules.machine import Machine
from extensions.machines.views.blockers import list_blockers
from extensions.machines.views.next_actions import machine_actions
from projections.words.text import truncate_utc_to_seconds

Document = dict[str, Any]
#: The default and the minimum size limit of a briefing in bytes.
BOUND, LEAST = 5_120, 1_024
#: Pairs of limits, for the length of texts and of lists. A part is shortened with smaller and
#: smaller limits until the briefing fits.
_CUTS = tuple((max(int(8_000 * 0.7**n), 12), max(int(800 * 0.7**n), 1)) for n in range(20))
#: Weight of the parts of a briefing. Among parts of the same size, those with a larger weight are
#: shortened later.
_WORTH = {"handoff": 4, "resume": 4, "phase": 4, "blockers": 2, "drift": 2}
#: A command in a text, up to its closing quote or the end of the line.
_COMMAND = re.compile(r"`wfctl [^`]*`|wfctl [^`\n]*")
#: Parts that are removed only if shortening all other parts is not enough.
_SPARED = frozenset({"v", "workflow", "nextAction", "cut"})


def build_briefing(
    machine: Machine,
    files: Mapping[str, FileFact],
    drift: Sequence[Document],
    bound: int = BOUND,
    resume: Document | None = None,
    now: str | None = None,
) -> Document:
    """Return the briefing about a machine, shortened to at most ``bound`` bytes.

    The field ``cut`` lists the parts that were shortened or left out. ``resume`` is the point at
    which the protocol continues, if known. If ``now`` (UTC) is given, late progress is reported.
    """
    actions = machine_actions(machine, files, list_changed_files(drift))
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
            "updated": truncate_utc_to_seconds(machine.updated),
            "loops": dict(machine.counts),
        },
        "phase": _describe_phase(machine, files),
        "taskProgress": {
            "total": len(machine.tasks),
            "byStatus": dict(Counter(str(task.get("status")) for task in machine.tasks)),
            "open": [
                _describe_task(machine, task)
                for task in machine.tasks
                if task.get("status") != done
            ],
        },
        "decisions": _list_decisions(machine),
        "artifacts": machine.document.get("artifacts") or {},
        "blockers": list_blockers(machine, files, now),
        "handoff": handoff
        and {
            "summary": handoff.summary,
            "nextSteps": handoff.next,
            "phase": handoff.phase,
            "at": truncate_utc_to_seconds(handoff.at),
        },
        "nextAction": actions[0].to_dict() if actions else None,
        "drift": list(drift),
        "cut": [],
    }
    if resume is not None:
        whole["resume"] = resume
    return _shorten_to_bound(whole, max(bound, LEAST))


def list_changed_files(drift: Sequence[Document]) -> list[str]:
    """Return the files of a machine with changes of other programs that are not recorded."""
    return [str(one["file"]) for one in drift if one["kind"] == "file_changed"]


def _describe_phase(machine: Machine, files: Mapping[str, FileFact]) -> Document:
    if machine.is_final:
        return {"asks": "", "person": False, "mayGoTo": []}
    phase = machine.definition.phases[machine.phase]
    facts = machine.facts(files)
    ways = [
        {"to": way.to, "needs": [one["condition"] for one in list_unmet(way.guard, facts)]}
        for way in machine.ways
    ]
    return {"asks": phase.asks, "person": phase.person, "mayGoTo": ways}


def _describe_task(machine: Machine, task: Document) -> Document:
    told = {name: task.get(name) for name in ("id", "title", "status")}
    held = machine.leases.get(str(task.get("id")))
    claim = held and {"claimedBy": held.by, "claimedUntil": truncate_utc_to_seconds(held.until)}
    return told | (claim or {})


def _list_decisions(machine: Machine) -> list[Document]:
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
    """Return the size in bytes of a document as JSON with indentation."""
    return len(json.dumps(document, indent=2, ensure_ascii=False).encode())


def _shorten_to_bound(whole: Document, bound: int) -> Document:
    """Return the document shortened to ``bound`` bytes. ``cut`` lists the shortened parts."""
    if _size_of(whole) <= bound:
        return whole
    levels = dict.fromkeys(whole.keys() - _SPARED, 0)
    shorter, lost = dict(whole), {key: Counter[str]() for key in levels}
    while levels:
        part = max(levels, key=lambda key: _size_of(shorter[key]) / _WORTH.get(key, 1))
        lost[part] = Counter()
        shorter[part] = _cut_value(whole[part], part, *_CUTS[levels[part]], lost[part])
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


def _cut_value(value: Any, place: str, text: int, items: int, cut: Counter[str]) -> Any:
    if isinstance(value, str) and len(value) > text:
        # Do not cut a command in the middle: keep it completely or remove it.
        inside = (c for c in _COMMAND.finditer(value) if c.start() < text < c.end())
        kept = value[: next((c.start() for c in inside), text)]
        cut[f"{place} (characters)"] += len(value) - len(kept)
        return kept + "…"
    if isinstance(value, list):
        if len(value) > items:
            cut[f"{place} (items)"] += len(value) - items
        return [_cut_value(one, place, text, items, cut) for one in value[:items]]
    if isinstance(value, dict):
        fields = list(value.items())[: max(items, 12)]
        if len(value) > len(fields):
            cut[f"{place} (fields)"] += len(value) - len(fields)
        return {
            key[:text]: _cut_value(one, f"{place}.{key}"[:80], text, items, cut)
            for key, one in fields
        }
    return value
