"""wfctl shows a change of a nested value field by field, without the unchanged parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lifecycle.state.workflow import Amendment
from projections.words.amendments import describe_amendment, format_changes
from tests.sweeps.looped import looped

_MANY = [f"file-{n}.csv" for n in range(20)]
#: The old and the new value of `parameters.p`, and the lines that show the change.
CHANGES: dict[str, tuple[Any, Any, list[str]]] = {
    "a field": ({"a": 1, "b": 2}, {"a": 1, "b": 3}, [".b: 2 -> 3"]),
    "a field of a field": ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}}, [".a.c: 2 -> 3"]),
    "a field taken away": ({"a": 1, "b": 2}, {"b": 2}, [".a: 1 -> (nothing)"]),
    "an object into a field": ({"b": 2}, {"a": {"c": 1}, "b": 2}, [".a.c: (nothing) -> 1"]),
    "an object into an empty one": ({}, {"a": 1}, [".a: (nothing) -> 1"]),
    "all fields taken away": ({"a": {"b": 1}}, {"a": {}}, [".a.b: 1 -> (nothing)"]),
    "an empty object": ({"b": 2}, {"b": 2, "a": {}}, [".a: (nothing) -> {}"]),
    "another type": ({"a": {"b": 1}}, {"a": [1]}, ['.a: {"b": 1} -> [1]']),
    "true in place of 1": ({"a": 1}, {"a": True}, [".a: 1 -> true"]),
    "a key that reads as a change": ({"a: 1 -> 2": 3}, {"a: 1 -> 2": 4}, ['."a: 1 -> 2": 3 -> 4']),
    "a short list": ({"a": [1, 2]}, {"a": [2, 3]}, [".a: [1, 2] -> [2, 3]"]),
    "a long list": (
        {"a": _MANY},
        {"a": [*_MANY[1:], "more.csv"]},
        ['.a, taken away: ["file-0.csv"]', '.a, added: ["more.csv"]'],
    ),
    "an entry twice": ([1, *_MANY], [1, *_MANY, 1], [", added: [1]"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_nested_change_is_shown_field_by_field(name: str) -> None:
    """Each changed field has one line with its path."""
    old, new, lines = CHANGES[name]
    assert format_changes(_amendment(old, new)) == [f"parameters.p{line}" for line in lines]


def test_reordered_long_list_is_shown_in_full() -> None:
    """The old and the new list are shown in full if only the order of entries changed."""
    (line,) = format_changes(_amendment(_MANY, _MANY[::-1]))
    assert line.count("file-19.csv") == 2


def test_changed_field_of_a_loop_is_shown_alone(tmp_path: Path) -> None:
    """All views and the log show the changed field of the loop in the same single line."""
    place = looped(tmp_path, until={"metric": "next.best", "above": 9})
    until = 'rounds.walk.until={"metric": "next.best", "above": 7}'
    line = "rounds.walk.until.above: 9 -> 7"
    answer = place.call("amend", "propose", "--reason", "Less.", "--set", until)
    assert f"  {line}\n" in answer.out
    for words in (["amend", "list"], ["amend", "show", "amend-1"], ["status"], ["inbox"]):
        shown = place.call(*words).out
        assert (line in shown, '"at_most"' in shown) == (True, False), shown
    assert f": {line}; described as" in (place.path / "progress.log").read_text()


def _amendment(old: Any, new: Any) -> Amendment:
    made = Amendment(
        id="amend-1",
        kind="parameter_change",
        stage="stage-1",
        description="Others.",
        changes={"parameters": {"p": {"old": old, "new": new}}},
        proposed_at="2026-11-26T00:00:00.000000Z",
    )
    assert describe_amendment(made).endswith('described as "Others."')
    return made
