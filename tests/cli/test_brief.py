"""`--brief` limits an answer to a number of tokens: newest records first, no empty fields."""

from __future__ import annotations

import json

import pytest

from reconciler.briefing.briefing import count_tokens
from tests.cli.support import Place, call, write_plan

RECORDS = (["log"], ["events"])


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Return a workflow with forty notes, one of which is very long. No test changes it."""
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
def test_brief_answer_stays_within_its_budget(
    told: Place, command: list[str], budget: int, form: str
) -> None:
    """The answer stays within the token budget, and shows the newest record if it fits."""
    shown = told.call("-o", form, *command, "--brief", str(budget)).out
    assert count_tokens(shown) <= budget
    if budget > 80:
        assert ("note 39" in shown) or (command == ["events"] and form == "text")
        assert count_tokens(shown) > budget / 3


@pytest.mark.parametrize("command", RECORDS)
def test_brief_answer_counts_the_omitted_records(told: Place, command: list[str]) -> None:
    """The JSON metadata and the first line of text state the number."""
    envelope = told.json(*command, "--brief", "400").envelope
    total = len(told.done(*command))
    assert envelope["_meta"]["left_out"] == total - len(envelope["data"])
    assert "older left out)" in told.call(*command, "--brief", "400").out.splitlines()[0]


@pytest.mark.parametrize("command", RECORDS)
def test_limit_options_return_the_newest_records(told: Place, command: list[str]) -> None:
    """``-n`` and ``--limit`` return the newest records in their usual order."""
    every = [record["version"] for record in told.done(*command)]
    for option in ("-n", "--limit"):
        assert [r["version"] for r in told.done(*command, option, "3")] == every[-3:]
    shown = told.call("-o", "jsonl", *command, "-n", "3", "--brief", "4000").out.splitlines()
    assert [json.loads(line)["version"] for line in shown] == every[-3:]


@pytest.mark.parametrize("command", RECORDS)
@pytest.mark.parametrize("other", [["--reverse"], ["--fields", "type"], ["--follow"]])
def test_brief_refuses_other_output_options(
    told: Place, command: list[str], other: list[str]
) -> None:
    """A command with `--brief` and another output option exits with code 2."""
    assert told.call(*command, "--brief", "9", *other).code == 2
