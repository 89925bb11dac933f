"""Answers of `wfctl machine` commands have a limited size and contain only complete commands."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from extensions.machines.rules.decide_fields import refuse_reserved
from extensions.machines.rules.definition import Definition
from extensions.machines.rules.errors import ReservedField
from extensions.machines.rules.field_shapes import nearest_name
from extensions.machines.rules.path import parse_path
from extensions.machines.rules.soundness import load_definition
from extensions.machines.service.complete_command import SHIPPED
from tests.cli.support import Answer
from tests.machines.place import MachinePlace
from tests.machines.support import every, small_data
from tests.need import need_programs

WRITE, BRIEF = 1_024, 6_144


def size(answer: Answer) -> int:
    """Return the size of an answer in bytes."""
    assert answer.code == 0, answer
    return len(json.dumps(answer.envelope, ensure_ascii=False, separators=(",", ":")).encode())


def tasks(number: int) -> str:
    """Return JSON data with the given number of tasks."""
    listed = [{"id": f"T-{n}", "title": "word " * 20, "status": "pending"} for n in range(number)]
    return json.dumps({"tasks": listed})


@pytest.mark.parametrize("type_", SHIPPED)
def test_answer_of_init_is_short(place: MachinePlace, type_: str) -> None:
    """The answer has at most 1 KB, because it omits the definition of the machine."""
    line = ("init", "one", "--type", type_, "--consent", "trust")
    assert size(place.call(*line, "--dry-run")) <= WRITE
    assert size(place.call(*line)) <= WRITE


def test_answers_of_writes_omit_the_sent_data(place: MachinePlace) -> None:
    """wfctl answers an update of 800 tasks, like any other write, with at most 1 KB."""
    place.init("login")
    place.write("tasks.json", tasks(800))
    assert size(place.call("update", "login", "--data", f"@{place.path}/tasks.json")) <= WRITE
    assert size(place.call("task", "login", "T-1", f"note={'x' * 5_000}")) <= WRITE
    assert size(place.call("checkpoint", "login", "--summary", "s" * 9_000)) <= WRITE
    assert size(place.call("update", "login", "artifacts.design=d.md")) <= WRITE
    assert size(place.call("transition", "login", "plan")) <= WRITE


@pytest.mark.parametrize("name", [None, *SHIPPED])
def test_describe_is_short_without_the_full_option(place: MachinePlace, name: str | None) -> None:
    """`machine describe` prints at most 6 KB; with `--full`, it prints the whole definition."""
    words = ("describe",) if name is None else ("describe", name)
    assert size(place.call(*words)) <= BRIEF
    assert size(place.call(*words, "--full")) > size(place.call(*words))


def test_rehydrate_is_short_for_a_large_state(place: MachinePlace) -> None:
    """`machine rehydrate` prints at most 6 KB and lists what it cut; `--bytes` allows more."""
    place.init("login")
    place.write("tasks.json", tasks(800))
    place.done("update", "login", "--data", f"@{place.path}/tasks.json")
    place.done("checkpoint", "login", "--summary", "s" * 3_000)
    answer = place.call("rehydrate", "login")
    assert size(answer) <= BRIEF
    assert answer.data["handoff"]["summary"] == "s" * 3_000
    assert any(one.startswith("taskProgress.open (items)") for one in answer.data["cut"])
    assert place.done("rehydrate", "login", "--bytes", "400000")["cut"] == []


def test_rehydrate_uses_the_given_byte_limit(place: MachinePlace) -> None:
    """`machine rehydrate --bytes 16000` prints a summary of 5,000 characters completely."""
    place.init("login")
    place.write("tasks.json", tasks(800))
    place.done("update", "login", "--data", f"@{place.path}/tasks.json")
    place.done("checkpoint", "login", "--summary", "s" * 5_000)
    data = place.done("rehydrate", "login", "--bytes", "16000")
    assert data["handoff"]["summary"] == "s" * 5_000
    taken = len(json.dumps(data, indent=2).encode())
    assert 11_000 < taken <= 16_000


def test_rehydrate_never_cuts_a_command_in_two(place: MachinePlace) -> None:
    """If `machine rehydrate` shortens a summary, each command in it stays whole or is left out."""
    place.init("login")
    command = "wfctl machine task login T-1 --status complete"
    text = "".join(f"{n} do `{command}` then look. " for n in range(200))
    place.done("checkpoint", "login", "--summary", text)
    for bound in range(1_024, 9_000, 500):
        handoff = place.done("rehydrate", "login", "--bytes", str(bound))["handoff"]
        summary = "" if handoff is None else handoff["summary"]
        assert summary.count("wfctl") == summary.count(f"`{command}`")


def of_definition(known: Definition) -> list[str]:
    """Return paths that users may not write: reserved fields, and names that start with "_"."""
    names = [*known.reserved_field_commands(), *known.fields]
    top = [f"_{name}" for name in names]
    inner = [f"{name}._own" for name in names]
    return [
        *known.reserved_field_commands(),
        *top,
        *inner,
        "_",
        "_desing",
        "__x",
        "tasks[0]._attempts",
    ]


@pytest.mark.parametrize("known", every(), ids=lambda known: known.id)
def test_alternative_to_a_reserved_field_is_accepted(known: Definition) -> None:
    """If wfctl refuses a reserved field and suggests another path, it accepts that path."""
    for path in of_definition(known):
        with pytest.raises(ReservedField) as refused:
            refuse_reserved(known, parse_path(path), "one")
        instead = refused.value.data["alternateWritePath"]
        if instead.startswith("wfctl machine update one "):
            advised = parse_path(
                instead.removeprefix("wfctl machine update one ").partition("=")[0]
            )
            refuse_reserved(known, advised, "one")
            assert nearest_name(known.fields, advised) is None


def git(place: MachinePlace, *words: str) -> None:
    """Run a git command in the root."""
    need_programs("git")
    who = ["-c", "user.name=ada", "-c", "user.email=ada@example.org"]
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    line = ["git", *who, "-C", str(place.path), *words]
    subprocess.run(line, check=True, capture_output=True, env=environ)


def test_cancel_lists_branches_worktrees_and_pull_request(place: MachinePlace) -> None:
    """`machine cancel` lists the branches that exist in git and the open pull request."""
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


def test_drift_reports_an_edit_before_the_next_write(place: MachinePlace) -> None:
    """`machine drift` and `machine rehydrate` report an edit of the state file immediately."""
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
def test_printed_definition_can_be_loaded_again(place: MachinePlace, type_: str) -> None:
    """`machine init --definition` accepts the output of `machine describe --source`."""
    source = place.done("describe", type_, "--source")
    assert load_definition(source) == next(known for known in every() if known.id == type_)
    place.write("mine.json", source)
    place.done("init", "one", "--definition", str(place.path / "mine.json"), "--consent", "trust")
    assert place.done("describe", "one", "--source") == source


def test_schema_prints_the_schemas_of_machines(place: MachinePlace) -> None:
    """`wfctl schema` prints the JSON Schema of a machine's state, an event, and a definition."""
    state = place.wfctl("schema", "feature.state").data
    assert "planReview" in state["properties"]
    event = place.wfctl("schema", "conductor.step.failed").data
    assert event["required"] == ["notes"]
    definition = place.wfctl("schema", "definition").data
    assert set(small_data()) <= set(definition["properties"])
    assert place.wfctl("schema", "feature.nothing").code != 0
