"""Each rule of the checker refuses a log that would pass without it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import lifecycle.protocol.behaviour as checker
from lifecycle.protocol.standing import Broken
from tests.protocol.forged import FORGED, GOOD, Event, linked

#: Nothing is asked of these but their place, which is that of each event.
_UNASKED = {"workflow.imported", "drift.detected"}
_FILES = ("standing", "behaviour")
_SOURCES = {name: Path(checker.__file__).with_name(f"{name}.py").read_text() for name in _FILES}


def judged(module: Any, events: list[Event]) -> Any:
    """Return the first breach that a checker finds."""
    return module.first_breach((event, event["hash"]) for event in linked(events))


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_a_good_log_is_accepted(number: int) -> None:
    """Else a forged log would be refused for what it was made of."""
    assert judged(checker, GOOD[number]) is None


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_log_is_refused_at_the_event_that_was_forged(name: str) -> None:
    """For the promise that it breaks; the log before it is accepted."""
    good, event, promise = FORGED[name]
    assert judged(checker, good) is None
    found = judged(checker, [*good, event])
    assert found is not None
    assert (found.promise, found.message != "") == (promise, True), found
    assert found.version == len(good) + 1 or name == "of another version"


def test_every_type_is_in_a_good_log_and_is_refused_in_a_forged_one() -> None:
    """So that no rule is there for nobody."""
    good = {event["type"] for events in GOOD for event in events}
    bad = {one.event["type"] for one in FORGED.values()}
    assert set(checker._RULES) <= good
    assert set(checker._RULES) - bad == _UNASKED


class _Without(ast.NodeTransformer):
    """Takes out the nth statement that refuses something, and knows the lines of all."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number
        self.lines: list[int] = []

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Take out ``hold(...)``."""
        call = node.value
        name = call.func if isinstance(call, ast.Call) else None
        is_hold = isinstance(name, ast.Name) and name.id == "hold"
        return self._counted(node) if is_hold else node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Take out ``raise Broken(...)``."""
        is_broken = isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == "Broken"
        return self._counted(node) if is_broken else node

    def _counted(self, node: ast.stmt) -> ast.stmt:
        self.lines.append(node.lineno)
        if len(self.lines) - 1 != self.number:
            return node
        return ast.copy_location(ast.Pass(), node)


def _refusals() -> Iterator[tuple[str, int, int]]:
    """Yield the file of each statement that refuses, its number in it, and its line."""
    for file, source in _SOURCES.items():
        found = _Without()
        found.visit(ast.parse(source))
        yield from ((file, number, line) for number, line in enumerate(found.lines))


def _mutant(file: str, number: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the checker without one of its refusals."""
    for name in _FILES:
        source = _SOURCES[name].replace("lifecycle.protocol.", "mutants_")
        tree = _Without(number if name == file else None).visit(ast.parse(source))
        module = ModuleType(f"mutants_{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(tree, name, "exec"), module.__dict__)
    return sys.modules["mutants_behaviour"]


@pytest.mark.parametrize(
    ("file", "number"),
    [pytest.param(file, number, id=f"{file}:{line}") for file, number, line in _refusals()],
)
def test_without_one_refusal_a_forged_log_is_accepted(
    file: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or goes on until it breaks something else."""
    mutant = _mutant(file, number, monkeypatch)
    assert any(judged(mutant, log) != found for found, log in _known())


@pytest.mark.parametrize("type_", sorted(set(checker._RULES) - _UNASKED))
def test_without_the_refusals_of_one_rule_a_forged_log_is_accepted(
    type_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each type of event that is ever refused for itself."""
    monkeypatch.setitem(checker._RULES, type_, _remembering(checker._RULES[type_]))
    bad = [[*one.good, one.event] for one in FORGED.values() if one.event["type"] == type_]
    assert any(judged(checker, log) is None for log in bad)


def _remembering(rule: Any) -> Any:
    """Return a rule that remembers of a good event what the next ones need, and refuses none."""

    def remember(log: Any, event: Event) -> None:
        # A rule that breaks off half-way has refused the last event: nothing follows it.
        with suppress(Broken):
            rule(log, event)

    return remember


@cache
def _known() -> list[tuple[Any, list[Event]]]:
    """Return each forged log after the breach that the whole checker finds in it."""
    logs = [[*one.good, one.event] for one in FORGED.values()]
    return [(judged(checker, log), log) for log in logs]
