"""Each rule of the protocol checker is necessary: without it, some forged log is accepted."""

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

import extensions.protocol_check.behaviour as checker
from extensions.protocol_check.derived_state import Broken
from tests.protocol.forged import FORGED, GOOD, Event, linked

#: The rules of these types check only the position of an event in the log.
_UNASKED = {"workflow.imported", "drift.detected"}
_FILES = ("derived_state", "behaviour")
_SOURCES = {name: Path(checker.__file__).with_name(f"{name}.py").read_text() for name in _FILES}


def judged(module: Any, events: list[Event]) -> Any:
    """Return the first breach of the protocol that the checker finds, or None."""
    return module.first_breach((event, event["hash"]) for event in linked(events))


@pytest.mark.parametrize("number", range(len(GOOD)))
def test_valid_log_is_accepted(number: int) -> None:
    """The checker accepts the valid part of each forged log, so only the forged event is wrong."""
    assert judged(checker, GOOD[number]) is None


@pytest.mark.parametrize("name", FORGED)
def test_forged_log_is_rejected_at_the_forged_event(name: str) -> None:
    """The checker names the broken promise, and accepts the log before the forged event."""
    good, event, promise = FORGED[name]
    assert judged(checker, good) is None
    found = judged(checker, [*good, event])
    assert found is not None
    assert (found.promise, found.message != "") == (promise, True), found
    assert found.version == len(good) + 1 or name == "of another version"


def test_every_event_type_has_a_valid_and_a_forged_log() -> None:
    """Valid and forged logs contain every type of event for which the checker has a rule."""
    good = {event["type"] for events in GOOD for event in events}
    bad = {one.event["type"] for one in FORGED.values()}
    assert set(checker._RULES) <= good
    assert set(checker._RULES) - bad == _UNASKED


class _Without(ast.NodeTransformer):
    """Removes one statement that rejects a log from source code, and lists all such statements."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number
        self.lines: list[int] = []

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        """Remove a call of ``hold(...)`` if it is the chosen statement."""
        call = node.value
        name = call.func if isinstance(call, ast.Call) else None
        is_hold = isinstance(name, ast.Name) and name.id == "hold"
        return self._counted(node) if is_hold else node

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        """Remove a ``raise Broken(...)`` if it is the chosen statement."""
        is_broken = isinstance(node.exc, ast.Call) and ast.unparse(node.exc.func) == "Broken"
        return self._counted(node) if is_broken else node

    def _counted(self, node: ast.stmt) -> ast.stmt:
        self.lines.append(node.lineno)
        if len(self.lines) - 1 != self.number:
            return node
        return ast.copy_location(ast.Pass(), node)


def _refusals() -> Iterator[tuple[str, int, int]]:
    """Yield file, number and line of each statement that rejects a log."""
    for file, source in _SOURCES.items():
        found = _Without()
        found.visit(ast.parse(source))
        yield from ((file, number, line) for number, line in enumerate(found.lines))


def _mutant(file: str, number: int, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a copy of the checker without one of the statements that reject a log."""
    for name in _FILES:
        source = _SOURCES[name].replace("extensions.protocol_check.", "mutants_")
        tree = _Without(number if name == file else None).visit(ast.parse(source))
        module = ModuleType(f"mutants_{name}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(tree, name, "exec"), module.__dict__)
    return sys.modules["mutants_behaviour"]


@pytest.mark.parametrize(
    ("file", "number"),
    [pytest.param(file, number, id=f"{file}:{line}") for file, number, line in _refusals()],
)
def test_removing_a_rejection_changes_a_verdict(
    file: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one rejecting statement, the checker judges at least one forged log differently."""
    mutant = _mutant(file, number, monkeypatch)
    assert any(judged(mutant, log) != found for found, log in _known())


@pytest.mark.parametrize("type_", sorted(set(checker._RULES) - _UNASKED))
def test_removing_a_rule_accepts_a_forged_log(type_: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the rule of an event type rejects nothing, the checker accepts a forged log."""
    monkeypatch.setitem(checker._RULES, type_, _remembering(checker._RULES[type_]))
    bad = [[*one.good, one.event] for one in FORGED.values() if one.event["type"] == type_]
    assert any(judged(checker, log) is None for log in bad)


def _remembering(rule: Any) -> Any:
    """Return a copy of a rule that remembers the event but never rejects it."""

    def remember(log: Any, event: Event) -> None:
        # An exception means that the rule rejected the event. It is the last event of the log, so
        # it need not be remembered completely.
        with suppress(Broken):
            rule(log, event)

    return remember


@cache
def _known() -> list[tuple[Any, list[Event]]]:
    """Return each forged log with the breach that the complete checker finds."""
    logs = [[*one.good, one.event] for one in FORGED.values()]
    return [(judged(checker, log), log) for log in logs]
