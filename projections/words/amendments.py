"""Plans and amendments in words, from what they change and never from what the proposer says."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lifecycle.fold.evolve import KEYED
from lifecycle.state.conditions import budget_of, estimate
from lifecycle.state.workflow import PLAN, Amendment, Stage, Workflow
from lifecycle.sweeps.definition import MAP, is_sweep
from lifecycle.words.document import rewired_fields
from projections.words.text import spelled

#: What `told` shows: so many values, and so many letters of a place or a value.
_VALUES, _LETTERS = 5, 80
#: In place of a value that is not there.
_NOTHING = object()
#: A key that stands in a place as it is.
_PLAIN = re.compile(r"[\w.-]+")
Parts = tuple[str, ...]
"""What changes, and its old and new value; or what is done, in one part."""


def where(amendment: Amendment) -> str:
    """Return the stages, or that it is the whole workflow."""
    since = f", from round {amendment.from_round} on" if amendment.from_round is not None else ""
    return (", ".join(amendment.targets) or "workflow") + since


def changes(amendment: Amendment) -> list[str]:
    """Return a line for each value that changes: place, old, new; in full, nothing is left out."""
    return [_line(parts, spelled) for parts in _changes(amendment)]


def held(ids: Sequence[str]) -> str:
    """Say of a stage that amendments which wait for a decision would act on it."""
    if PLAN in ids:
        return "waits for the plan's approval"
    return f"waits for a decision: {', '.join(ids)} would act on it"


def summary(amendment: Amendment) -> str:
    """Return all changes on one line."""
    return "; ".join(changes(amendment))


def told(amendment: Amendment) -> str:
    """Return what changes, and behind it what the proposer calls it, on one line.

    Long values are cut, each on its own, so that none hides another.
    """
    found = list(_changes(amendment))
    listed = [_line(parts, _short) for parts in found[:_VALUES]]
    if len(found) > _VALUES:
        listed.append(f"{len(found) - _VALUES} more (wfctl amend show {amendment.id})")
    return f"{'; '.join(listed)}; described as {_json(spelled(amendment.description))}"


def _line(parts: Parts, show: Callable[[str], str]) -> str:
    place, *values = map(show, parts)
    return ": ".join([place, " -> ".join(values)] if values else [place])


def _short(text: str) -> str:
    shown = spelled(text)
    return shown if len(shown) <= _LETTERS else f"{shown[:_LETTERS]}…"


def _changes(amendment: Amendment) -> Iterator[Parts]:
    if amendment.is_plan:
        yield ("the plan",)
        return
    found = [*_of_fields(amendment.changes, ""), *_stages(amendment)]
    yield from found or [(f"{amendment.kind.removeprefix('stage_')} {where(amendment)}",)]


def _of_fields(changes: dict[str, Any], of: str) -> Iterator[Parts]:
    for field, change in changes.items():
        leaves = change if field in KEYED and isinstance(change, dict) else {"": change}
        for key, leaf in leaves.items():
            place = f"{of}{field}.{key}" if key else f"{of}{field}"
            if not isinstance(leaf, dict) or not set(leaf) <= {"old", "new"}:
                yield (place, _json(leaf))  # of a record that was imported, which holds anything
                continue
            both = leaf.get("old", _NOTHING), leaf.get("new", _NOTHING)
            yield from [*_leaves(place, *both)] or [(place, *map(_json, both))]


def _leaves(place: str, old: Any, new: Any) -> Iterator[Parts]:
    """Yield what changes in a value: of an object each field for itself, and no other."""
    if _json(old) == _json(new):
        return
    sides = [one if isinstance(one, dict) else {} for one in (old, new)]
    if any(sides) and all(one is _NOTHING or isinstance(one, dict) for one in (old, new)):
        for key in dict.fromkeys([*sides[0], *sides[1]]):
            step = key if _PLAIN.fullmatch(key) else _json(key)
            yield from _leaves(f"{place}.{step}", *(one.get(key, _NOTHING) for one in sides))
        return
    yield from _of_long_list(place, old, new) or [(place, _json(old), _json(new))]


def _of_long_list(place: str, old: Any, new: Any) -> list[Parts]:
    """Return what a long list loses and gets; nothing of any other value."""
    if not (isinstance(old, list) and isinstance(new, list)):
        return []
    before, after = ([_json(one) for one in entries] for entries in (old, new))
    gone, come = Counter(before) - Counter(after), Counter(after) - Counter(before)
    stay = [_without(before, gone), _without(after, come)]
    is_short = max(len(_json(one)) for one in (old, new)) <= _LETTERS
    if is_short or not stay[0] or stay[0] != stay[1]:
        return []
    both = {"taken away": gone, "added": come}
    return [
        (f"{place}, {what}", f"[{', '.join(found.elements())}]")
        for what, found in both.items()
        if found
    ]


def _without(entries: list[str], gone: Counter[str]) -> list[str]:
    """Return the entries in their order, without the last ones of those that are gone."""
    left = Counter(entries) - gone
    kept = []
    for one in entries:
        kept += [one] if left[one] > 0 else []
        left[one] -= 1
    return kept


def _stages(amendment: Amendment) -> Iterator[Parts]:
    if amendment.insert is not None:
        at = "the end" if amendment.place is None else f"place {amendment.place}"
        yield (f"new stage, at {at}", _json(amendment.insert))
    elif amendment.kind in ("stage_skip", "stage_rerun"):
        yield (f"{amendment.kind.removeprefix('stage_')} {where(amendment)}",)
    for stage, change in amendment.rewired.items():
        yield from _of_fields(rewired_fields(change), f"{stage}.")


def _json(value: Any) -> str:
    return "(nothing)" if value is _NOTHING else json.dumps(value, ensure_ascii=False)


#: Letters of a value that a person is shown.
_LONG = 2000


def plan_lines(state: Workflow) -> list[str]:
    """Return the plan in full, a line each: stages, back ends, who may agree, what it may cost."""
    counted = ("session_count", "session_id", "session_cost", "exit_reason")
    steering = {name: one for name, one in state.session_config.items() if name not in counted}
    signers = f", of {'; '.join(state.signers)}" if state.signers else ""
    return [
        f"Plan: {state.id}, for {state.purpose or 'a purpose that nobody gave'}",
        *([f"Experiment design: {design}"] if (design := state.experiment_design) else []),
        *([f"Workflow plan: {plan}"] if (plan := state.workflow_plan) else []),
        *(line for stage in state.stages.values() for line in _stage(state, stage)),
        *(f"Back end {name}: {_plan_json(one)}" for name, one in state.backend_profiles.items()),
        f"Sessions: {_plan_json(steering)}",
        f"Who may agree to later changes: by {state.consent}{signers}",
        *(
            line
            for name, one in state.mandates.items()
            for line in _allowed(f"Mandate {name}", one)
        ),
        *(line for name, one in state.rounds.items() for line in _allowed(f"Loop {name}", one)),
        f"May cost: {_cost(state)}",
    ]


def _stage(state: Workflow, stage: Stage) -> Iterator[str]:
    after = f", after {', '.join(stage.depends_on)}" if stage.depends_on else ""
    yield f"Stage {stage.id} ({stage.name}){after}, on {stage.backend or state.default_backend}"
    given = {"inputs": stage.inputs, "outputs": stage.outputs}
    for name, value in {**stage.parameters, **given}.items():
        if value not in ([], None):
            yield f"  {name}: {value if isinstance(value, str) else _plan_json(value)}"
    if stage.success_criteria:
        yield f"  success criteria: {stage.success_criteria}"


def _allowed(name: str, given: Any) -> Iterator[str]:
    """Yield what is allowed beforehand; each bound has its line, so that it is shown whole."""
    yield f"{name}, by which stages are computed that nobody is asked about"
    for field, value in given.items() if isinstance(given, dict) else [("is", given)]:
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for key, one in parts:
            yield f"  {field}{f' {key}' if key else ''}: {_plan_json(one)}"


def _cost(state: Workflow) -> str:
    """Return what wfctl knows beforehand of what the plan may use."""
    stages = list(state.stages.values())
    weight = sum(estimate(state, stage) for stage in stages)
    tasks = sum(_tasks(stage) for stage in stages)
    seconds = [stage.parameters.get("expected_seconds") for stage in stages]
    said = sum(one for one in seconds if isinstance(one, int | float))
    parts = [
        f"{weight:g} where a session has a budget of {budget_of(state):g}",
        *([f"{tasks:,} tasks of sweeps"] if tasks else []),
        *([f"{said:g} s of computing by what its stages say"] if said else []),
    ]
    return ", ".join(parts)


def _tasks(stage: Stage) -> int:
    """Return how many points a sweep has; those that a file or another stage names count none."""
    if not is_sweep(stage.parameters):
        return 0
    from lifecycle.sweeps.points import UnusableMap, points

    given = stage.parameters[MAP]
    try:
        return len(points(given)) if {"points", "grid", "zip"} & set(given) else 0
    except UnusableMap:
        return 0  # an imported file may hold anything


def _plan_json(value: Any) -> str:
    """Return a value as JSON; of a long one the beginning: `amend show --statement` has it all."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONG else f"{text[:_LONG]}… ({len(text):,} letters of JSON)"
