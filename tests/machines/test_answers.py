"""Answers are short: no echo of what was sent, bounds that are used, commands in one piece."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from lifecycle.machines.decide_fields import refuse_reserved
from lifecycle.machines.definition import Definition
from lifecycle.machines.errors import ReservedField
from lifecycle.machines.path import parse
from lifecycle.machines.shape import nearest_name
from lifecycle.machines.soundness import load
from service.machines.completing import SHIPPED
from tests.cli.support import Answer
from tests.machines.place import MachinePlace
from tests.machines.support import every, small_data
from tests.need import need_programs

WRITE, BRIEF = 1_024, 6_144


def size(answer: Answer) -> int:
    """Return how many bytes an answer takes."""
    assert answer.code == 0, answer
    return len(json.dumps(answer.envelope, ensure_ascii=False, separators=(",", ":")).encode())


def tasks(number: int) -> str:
    """Return many tasks as data."""
    listed = [{"id": f"T-{n}", "title": "word " * 20, "status": "pending"} for n in range(number)]
    return json.dumps({"tasks": listed})


@pytest.mark.parametrize("type_", SHIPPED)
def test_the_answer_to_a_beginning_is_short(place: MachinePlace, type_: str) -> None:
    """A dry run's too: the definition is asked for with describe."""
    line = ("init", "one", "--type", type_, "--consent", "trust")
    assert size(place.call(*line, "--dry-run")) <= WRITE
    assert size(place.call(*line)) <= WRITE


def test_no_write_echoes_what_was_sent(place: MachinePlace) -> None:
    """Given 800 tasks in one update, then the answer is as short as that of any other."""
    place.init("login")
    place.write("tasks.json", tasks(800))
    assert size(place.call("update", "login", "--data", f"@{place.path}/tasks.json")) <= WRITE
    assert size(place.call("task", "login", "T-1", f"note={'x' * 5_000}")) <= WRITE
    assert size(place.call("checkpoint", "login", "--summary", "s" * 9_000)) <= WRITE
    assert size(place.call("update", "login", "artifacts.design=d.md")) <= WRITE
    assert size(place.call("transition", "login", "plan")) <= WRITE


@pytest.mark.parametrize("name", [None, *SHIPPED])
def test_a_description_is_brief_unless_more_is_asked_for(
    place: MachinePlace, name: str | None
) -> None:
    """All of it is had with --full, and the definition itself with --source."""
    words = ("describe",) if name is None else ("describe", name)
    assert size(place.call(*words)) <= BRIEF
    assert size(place.call(*words, "--full")) > size(place.call(*words))


def test_a_brief_is_short_whatever_there_is_to_say(place: MachinePlace) -> None:
    """With its envelope; more on demand."""
    place.init("login")
    place.write("tasks.json", tasks(800))
    place.done("update", "login", "--data", f"@{place.path}/tasks.json")
    place.done("checkpoint", "login", "--summary", "s" * 3_000)
    answer = place.call("rehydrate", "login")
    assert size(answer) <= BRIEF
    assert answer.data["handoff"]["summary"] == "s" * 3_000
    assert any(one.startswith("taskProgress.open (items)") for one in answer.data["cut"])
    assert place.done("rehydrate", "login", "--bytes", "400000")["cut"] == []


def test_a_bound_is_used(place: MachinePlace) -> None:
    """Given a hand-off that fits beside less of the rest, then it is whole."""
    place.init("login")
    place.write("tasks.json", tasks(800))
    place.done("update", "login", "--data", f"@{place.path}/tasks.json")
    place.done("checkpoint", "login", "--summary", "s" * 5_000)
    data = place.done("rehydrate", "login", "--bytes", "16000")
    assert data["handoff"]["summary"] == "s" * 5_000
    taken = len(json.dumps(data, indent=2).encode())
    assert 11_000 < taken <= 16_000


def test_a_command_is_never_cut_in_two(place: MachinePlace) -> None:
    """Given hand-offs that hold commands, then each command is there whole or not at all."""
    place.init("login")
    command = "wfctl machine task login T-1 --status complete"
    text = "".join(f"{n} do `{command}` then look. " for n in range(200))
    place.done("checkpoint", "login", "--summary", text)
    for bound in range(1_024, 9_000, 500):
        handoff = place.done("rehydrate", "login", "--bytes", str(bound))["handoff"]
        summary = "" if handoff is None else handoff["summary"]
        assert summary.count("wfctl") == summary.count(f"`{command}`")


def of_definition(known: Definition) -> list[str]:
    """Return fields that only the engine writes, and fields that begin with an underscore."""
    names = [*known.all_reserved(), *known.fields]
    top = [f"_{name}" for name in names]
    inner = [f"{name}._own" for name in names]
    return [*known.all_reserved(), *top, *inner, "_", "_desing", "__x", "tasks[0]._attempts"]


@pytest.mark.parametrize("known", every(), ids=lambda known: known.id)
def test_what_is_advised_instead_is_not_refused_in_its_turn(known: Definition) -> None:
    """Whatever reserved field is asked for."""
    for path in of_definition(known):
        with pytest.raises(ReservedField) as refused:
            refuse_reserved(known, parse(path), "one")
        instead = refused.value.data["alternateWritePath"]
        if instead.startswith("wfctl machine update one "):
            advised = parse(instead.removeprefix("wfctl machine update one ").partition("=")[0])
            refuse_reserved(known, advised, "one")
            assert nearest_name(known.fields, advised) is None


def git(place: MachinePlace, *words: str) -> None:
    """Call git here."""
    need_programs("git")
    who = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    line = ["git", *who, "-C", str(place.path), *words]
    subprocess.run(line, check=True, capture_output=True, env=environ)


def test_a_cancelled_machine_says_what_is_left(place: MachinePlace) -> None:
    """Branches and worktrees that git has, and the pull request; a dry run says it too."""
    git(place, "init", "-q", "-b", "main")
    git(place, "commit", "-q", "--allow-empty", "-m", "one")
    git(place, "branch", "feat/a")
    tree = place.path.parent / "tree"
    git(place, "worktree", "add", "-q", str(tree), "feat/a")
    place.init("login")
    place.done("task", "login", "T-1", "branch=feat/a")
    place.done("task", "login", "T-2", "branch=feat/never")
    place.done("update", "login", "synthesis.prUrl=https://example.org/7")
    expected: dict[str, Any] = {
        "branches": ["feat/a"],
        "worktrees": [str(tree)],
        "pull_request": "https://example.org/7",
    }
    assert place.done("cancel", "login", "--dry-run")["left"] == expected
    assert place.phase("login") == "ideate"
    assert place.done("cancel", "login")["left"] == expected


def test_drift_says_what_differs_before_the_next_write(place: MachinePlace) -> None:
    """And anyone who comes back is led to it."""
    place.init("login")
    place.write("login.state.json", {**place.json("login.state.json"), "phase": "completed"})
    answer = place.call("drift", "login")
    assert answer.code == 7
    (change,) = answer.data["changes"]
    (field,) = change["differences"]
    assert (change["detected"], field["path"], field["new"]) == (None, ["phase"], "completed")
    back = place.call("rehydrate", "login").envelope
    assert back["next_actions"][0]["command"] == "wfctl machine drift login"
    assert back["data"]["nextAction"]["command"] == "wfctl machine drift login"
    assert place.types("login") == ["machine.created"]


@pytest.mark.parametrize("type_", SHIPPED)
def test_a_definition_can_be_had_and_loads_again_as_it_is(place: MachinePlace, type_: str) -> None:
    """As a file for --definition."""
    source = place.done("describe", type_, "--source")
    assert load(source) == next(known for known in every() if known.id == type_)
    place.write("mine.json", source)
    place.done("init", "one", "--definition", str(place.path / "mine.json"), "--consent", "trust")
    assert place.done("describe", "one", "--source") == source


def test_the_schemas_of_machines_can_be_had(place: MachinePlace) -> None:
    """Of the definition, of each type's fields, and of each event's data."""
    state = place.wfctl("schema", "feature.state").data
    assert "planReview" in state["properties"]
    event = place.wfctl("schema", "conductor.step.failed").data
    assert event["required"] == ["notes"]
    definition = place.wfctl("schema", "definition").data
    assert set(small_data()) <= set(definition["properties"])
    assert place.wfctl("schema", "feature.nothing").code != 0
