"""Mandates (permissions given in advance) compared with a simple check, for random changes."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lifecycle.errors import LifecycleError
from lifecycle.payload import models as p
from lifecycle.rules.amendments import amendment_of_proposal
from lifecycle.rules.decide import decide
from lifecycle.rules.impact import compute_approval_impact
from lifecycle.rules.mandates import find_covering_mandate
from tests.lifecycle.support import AT
from tests.lifecycle.support import given as begun

_ROOT = "stage-1.parameters"
_RANGE = {"from": 2, "to": 4}
#: Random bounds: the values that a mandate allows for one path of a plan.
_BOUNDS: list[Any] = [_RANGE, [1, 5, "a"], [[1], [2, 3], {"a": 2}], [[]], [0, {"b": []}]]
_SCALARS: list[Any] = [0, 1, 2, 3, 4, 5, 2.5, 1.0, "a", "b", True, None]
_KEYS = ["a", "b", "a.b"]
_NOTHING = object()


class Refused(Exception):
    """A difference that the mandate does not cover."""


def spelled(value: Any) -> str:
    """Return a string that distinguishes 1, 1.0 and true, which are equal in Python."""
    if isinstance(value, dict):
        return f"object {sorted((key, spelled(one)) for key, one in value.items())}"
    if isinstance(value, list):
        return str([spelled(one) for one in value])
    return f"{type(value).__name__} {value!r}"


def require_bound(path: str, value: Any, values: dict[str, Any]) -> None:
    """Raise `Refused` if the bounds of the path do not allow the value, which is no container."""
    bounds = values.get(path)
    is_number = type(value) in (int, float)
    if isinstance(bounds, dict) and is_number and bounds["from"] <= value <= bounds["to"]:
        return
    if isinstance(bounds, list) and spelled(value) in map(spelled, bounds):
        return
    raise Refused(path)


def is_listed(path: str, value: Any, values: dict[str, Any]) -> bool:
    """Return whether the bounds of the path contain this list or object as a whole."""
    bounds = values.get(path)
    return type(value) in (list, dict) and spelled(value) in map(
        spelled, bounds if isinstance(bounds, list) else []
    )


def compare(path: str, old: Any, new: Any, values: dict[str, Any]) -> None:
    """Compare two versions of a value. Raise `Refused` for a difference that no bound allows."""
    if new is _NOTHING:
        raise Refused(f"{path}: taken away")
    if spelled(old) == spelled(new) or is_listed(path, new, values):
        return
    if type(old) is list and type(new) is list:
        compare_lists(path, old, new, values)
    elif type(old) is dict and type(new) is dict:
        compare_objects(path, old, new, values)
    elif type(old) in (list, dict):
        raise Refused(f"{path}: another shape")
    else:
        require_bound(path, new, values)


def compare_lists(path: str, old: list[Any], new: list[Any], values: dict[str, Any]) -> None:
    """Compare two versions of a list.

    Raise `Refused` if the new list is shorter, or if no bound allows a changed entry.
    """
    if len(new) < len(old):
        raise Refused(f"{path}: shorter")
    for place, one in enumerate(new):
        if place < len(old):
            compare(path, old[place], one, values)
        else:
            add(path, old[0] if old else _NOTHING, one, values)


def compare_objects(
    path: str, old: dict[str, Any], new: dict[str, Any], values: dict[str, Any]
) -> None:
    """Compare two versions of an object.

    Raise `Refused` if a key is missing in the new object, or if no bound allows a changed value.
    """
    if not old.keys() <= new.keys():
        raise Refused(f"{path}: a key less")
    for key, one in new.items():
        was = old.get(key, _NOTHING)
        if "." in key and spelled(was) != spelled(one):
            raise Refused(f"{path}: {key}")
        compare(f"{path}.{key}", was, one, values)


def add(path: str, first: Any, new: Any, values: dict[str, Any]) -> None:
    """Raise `Refused` if a new list entry differs in shape from the first, or exceeds bounds."""
    if is_listed(path, new, values):
        return
    containers = [one for one in (first, new) if type(one) in (list, dict)]
    if containers and (type(first) is not type(new) or not new):
        raise Refused(f"{path}: another shape")
    if isinstance(new, list):
        like = [*first, *(first[:1] or [_NOTHING]) * len(new)]
        for place, one in enumerate(new):
            add(path, like[place], one, values)
    elif isinstance(new, dict):
        if not first.keys() <= new.keys() or any("." in key for key in new):
            raise Refused(f"{path}: other keys")
        for key, one in new.items():
            add(f"{path}.{key}", first.get(key, _NOTHING), one, values)
    else:
        require_bound(path, new, values)


def drawn(choose: random.Random, depth: int = 3) -> Any:
    """Return a random value, often a list or an object with similar entries."""
    kind = choose.choice(["scalar", "list", "alike", "object"] if depth else ["scalar"])
    if kind == "list":
        return [drawn(choose, depth - 1) for _ in range(choose.randint(0, 3))]
    if kind == "alike":
        entry = drawn(choose, depth - 1)
        return [copy.deepcopy(entry) for _ in range(choose.randint(1, 3))]
    if kind == "object":
        names = choose.sample(_KEYS, choose.choice([0, 1, 1, 2, 2, 3]))
        return {name: drawn(choose, depth - 1) for name in names}
    return choose.choice(_SCALARS)


def paths_of(path: str, value: Any) -> set[str]:
    """Return the path of a value and the paths of all values inside it."""
    if isinstance(value, dict):
        return {path}.union(*(paths_of(f"{path}.{key}", one) for key, one in value.items()))
    entries = value if isinstance(value, list) else []
    return {path}.union(*(paths_of(path, one) for one in entries))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each position inside a value: a list or object, and an index or key."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from places(value[key])


def change(choose: random.Random, holder: Any, key: Any) -> None:
    """Replace the value at a key or index by a random value."""
    holder[key] = choose.choice([2, 3, 4] * 4 + [*_SCALARS, [2], {"a": 2}, []])


def remove(_choose: random.Random, holder: Any, key: Any) -> None:
    """Remove a key, or all entries of a list after the first entry."""
    if isinstance(holder[key], list):
        del holder[key][1:]
    else:
        del holder[key]


def append(choose: random.Random, holder: Any, key: Any) -> None:
    """Add a random entry to the list or object that is stored at a key or index."""
    more: list[Any] = [2, 3, 4, 2, 3, 4, 5, [2], [], {"a": 2}, {"a": 3, "b": 3}]
    if isinstance(holder[key], list):
        twice = [copy.deepcopy(one) for one in holder[key][:1]]
        holder[key].append(choose.choice([*more, *twice, *twice, *twice]))
    elif isinstance(holder[key], dict):
        holder[key][choose.choice(_KEYS)] = choose.choice(more)


def edited(value: Any, choose: random.Random) -> Any:
    """Return a copy of a value with one to three random edits."""
    whole = {"p": copy.deepcopy(value)}
    for _ in range(choose.choice([1, 1, 1, 2, 3])):
        if not whole:
            return _NOTHING
        holder, key = choose.choice([*places(whole)])
        choose.choice([change, change, remove, append, append])(choose, holder, key)
    return whole.get("p", _NOTHING)


def objection_to(old: Any, new: Any, values: dict[str, Any]) -> str | None:
    """Return the first difference that no bound allows, or None if the bounds allow all of them."""
    try:
        compare(f"{_ROOT}.p", old, new, values)
    except Refused as why:
        return str(why)
    return None


def mandate_for(old: Any, new: Any, values: dict[str, Any]) -> str | None:
    """Propose a change, and return the mandate of wfctl that covers it, or None.

    Raises `LifecycleError` if the proposal changes nothing.
    """
    mandate = {"stages": ["stage-1"], "amendments": 1, "values": values}
    parameters = {"command": "run", "p": old}
    plan = {
        "workflow_id": "melt-2026-03-31",
        "mandates": {"lists": mandate},
        "stages": [{"id": "stage-1", "name": "Run", "parameters": parameters}],
    }
    state = begun(plan=plan)
    leaf = {} if new is _NOTHING else {"new": new}
    known: dict[str, Any] = {"description": "x", "reason": "y", "stage": "stage-1"}
    changes: dict[str, Any] = {"parameters": {"p": leaf}}
    asked = p.AmendmentProposed(kind="parameter_change", changes=changes, **known)
    (proposal,) = decide(state, asked, AT)
    assert isinstance(proposal, p.AmendmentProposed)
    amendment = amendment_of_proposal(proposal)
    return find_covering_mandate(
        state, amendment, compute_approval_impact(state, amendment), "agent:bo", AT
    )[0]


@pytest.mark.slow
@settings(max_examples=10_000, deadline=None)
@given(st.integers(0, 2**48))
def test_mandate_covers_a_change_only_with_bounds_at_every_place(seed: int) -> None:
    """wfctl covers a random change exactly if the simple check finds a bound for each part."""
    choose = random.Random(seed)
    old = drawn(choose)
    new = edited(old, choose)
    known = sorted(paths_of(f"{_ROOT}.p", new))
    bounded = choose.sample(known, choose.choice([len(known), choose.randint(0, len(known))]))
    values = {path: choose.choice([_RANGE, _RANGE, *_BOUNDS]) for path in bounded}
    try:
        name = mandate_for(old, new, values)
    except LifecycleError:
        assert spelled(old) == spelled(new)
        return
    objection = objection_to(old, new, values)
    event("refused" if objection else "covered")
    assert name == (None if objection else "lists"), (old, new, values, objection)
