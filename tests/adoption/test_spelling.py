"""Numbers of an imported state file keep their notation (such as 1e-6 or 1.0)."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.adoption import support as s
from tests.cli.support import Place

NUMBERS = ["1e-6", "1E5", "1.50", "-0", "-0.0", "2.5e+3", "1.0", "7", "0.1", "1e22", "12e-1"]


def document(numbers: list[str]) -> str:
    """Return a state whose second stage has each number as a separate parameter."""
    text = json.dumps(s.document(s.stage(1), s.stage(2, parameters={"p": "HERE"})), indent=2)
    fields = [f'"a/b~{n}": {number}' for n, number in enumerate(numbers)]
    listed = f'"list": [{", ".join(numbers)}], "text": "number-0:1e-6"'
    return text.replace('"HERE"', "{" + ", ".join([*fields, listed]) + "}")


def numbers_in(text: str) -> list[str]:
    """Return every number after a colon or in a list, in its original notation."""
    inside = text.partition('"p":')[2]
    return re.findall(r"(?<=[\s\[])-?[0-9][0-9.eE+-]*(?=[,\s\]}])", inside)


def test_import_changes_only_the_indentation(tmp_path: Path) -> None:
    """Every number keeps its notation and its place."""
    text = document(NUMBERS)
    root = s.imported(s.write_files(tmp_path / "w", text))
    rendered = (root.path / s.STATE).read_text("utf-8")
    assert re.sub(r"\s", "", rendered) == re.sub(r"\s", "", text)
    assert root.json("replay", "--check").code == 0
    assert root.json("status").code == 0


def test_number_keeps_its_notation_until_its_value_changes(tmp_path: Path) -> None:
    """A change of the stage or of another number does not change a number's notation."""
    stage = s.stage(1, parameters={"tolerance": "HERE", "steps": 10, "command": "true"})
    text = json.dumps(s.document(stage)).replace('"HERE"', "1e-6")
    root = s.imported(s.write_files(tmp_path / "w", text), "--consent", "trust")
    root.done("stage", "ready", "stage-1")
    assert '"tolerance": 1e-6,' in (root.path / s.STATE).read_text("utf-8")
    root.done("amend", "propose", "--type", "parameter_change", *_set("steps=20"))
    _approve(root)
    shown = (root.path / s.STATE).read_text("utf-8")
    assert '"tolerance": 1e-6,' in shown
    assert '"steps": 20' in shown
    root.done("amend", "propose", "--type", "parameter_change", *_set("tolerance=1e-5"))
    _approve(root)
    assert '"tolerance": 1e-05,' in (root.path / s.STATE).read_text("utf-8")


def _set(change: str) -> tuple[str, ...]:
    return ("--set", f"stage-1.parameters.{change}", "--reason", "more")


def _approve(root: Place) -> None:
    number = len(root.done("amend", "list"))
    root.done("amend", "approve", f"amend-{number}")


@pytest.mark.parametrize("name", s.STATES)
def test_real_state_keeps_the_notation_of_every_number(name: str, tmp_path: Path) -> None:
    """Except for white space, the file stays the same."""
    source = s.history(name)
    root = s.imported(s.copied(source, tmp_path / "root"))
    before, now = ((place / s.STATE).read_text("utf-8") for place in (source, root.path))
    assert _tight(now) == _tight(before)


def _tight(text: str) -> str:
    """Return a JSON text without the white space between its values."""
    return re.sub(r'("(?:\\.|[^"\\])*")|\s+', r"\1", text)
