"""Answers in few tokens: what is newest, and nothing that is empty."""

from __future__ import annotations

import json

import pytest

from reconciler.briefing.briefing import tokens
from tests.cli.support import Place, call, write_plan

RECORDS = (["log"], ["events"])


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workflow with forty notes, one of them as long as a page; it is read alone."""
    root = tmp_path_factory.mktemp("told")
    answer = call("--root", str(root), "init", str(write_plan(root)), "--consent", "trust")
    assert answer.code == 0, answer
    place = Place(root)
    for number in range(40):
        place.done("note", f"note {number}: " + ("all is well " * (400 if number == 30 else 9)))
    return place


@pytest.mark.parametrize("form", ["text", "json", "jsonl"])
@pytest.mark.parametrize("budget", [80, 400, 1000])
@pytest.mark.parametrize("command", RECORDS)
def test_a_budget_of_records_is_kept(
    told: Place, command: list[str], budget: int, form: str
) -> None:
    """And it is used: the newest record is shown where there is room for one."""
    shown = told.call("-o", form, *command, "--brief", str(budget)).out
    assert tokens(shown) <= budget
    if budget > 80:
        assert ("note 39" in shown) or (command == ["events"] and form == "text")
        assert tokens(shown) > budget / 3


@pytest.mark.parametrize("command", RECORDS)
def test_what_was_left_out_is_counted(told: Place, command: list[str]) -> None:
    """Beside where the log stands, and in words for people."""
    envelope = told.json(*command, "--brief", "400").envelope
    total = len(told.done(*command))
    assert envelope["_meta"]["left_out"] == total - len(envelope["data"])
    assert "older left out)" in told.call(*command, "--brief", "400").out.splitlines()[0]


@pytest.mark.parametrize("command", RECORDS)
def test_the_newest_are_asked_for_alike(told: Place, command: list[str]) -> None:
    """``-n`` and ``--limit``, in their order, with a budget or without."""
    every = [record["version"] for record in told.done(*command)]
    for option in ("-n", "--limit"):
        assert [r["version"] for r in told.done(*command, option, "3")] == every[-3:]
    shown = told.call("-o", "jsonl", *command, "-n", "3", "--brief", "4000").out.splitlines()
    assert [json.loads(line)["version"] for line in shown] == every[-3:]


@pytest.mark.parametrize("command", RECORDS)
@pytest.mark.parametrize("other", [["--reverse"], ["--fields", "type"], ["--follow"]])
def test_a_brief_answer_takes_no_other_form(
    told: Place, command: list[str], other: list[str]
) -> None:
    """It is a usage error, not silence."""
    assert told.call(*command, "--brief", "9", *other).code == 2
