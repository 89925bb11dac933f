"""A command in a pseudo-terminal of an agent does not count as typed by a person."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from cli.agent_marks import AGENT_MARKS
from tests.cli.support import Place, wfctl, write_plan
from tests.cli.terminal import answered, typed

pytestmark = pytest.mark.slow


@pytest.mark.long
def test_command_in_an_agent_terminal_gives_no_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """wfctl attributes typed answers to the agent, even if WFCTL_ACTOR names a person."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ntouch {tmp_path}/paged\ncat\n")
    pager.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PAGER", str(pager))
    monkeypatch.setenv("WFCTL_ACTOR", "user:ada")
    monkeypatch.setenv("GEMINI_CLI", "1")
    line = ("--root", str(place.path))
    typed(*line, "init", str(write_plan(tmp_path)))
    typed(*line, "log")
    assert not (tmp_path / "paged").exists()
    code, shown = answered("y\n", *line, "amend", "approve", "plan")
    assert code == 6, shown
    [created] = place.done("events", "--type", "workflow.created")
    assert created["actor"] == {"kind": "agent", "name": "gemini-cli"}
    assert place.types("--type", "amendment.approved") == []

    # The option --actor explicitly names the person who approves. The proof also names the agent's
    # program.
    code, shown = answered("y\n", *line, "--actor", "user:ada", "amend", "approve", "plan")
    assert code == 0, shown
    [approved] = place.done("events", "--type", "amendment.approved")
    assert approved["actor"] == {"kind": "user", "name": "ada"}
    assert approved["data"]["proof"]["within"] == "gemini-cli"
    assert place.call("fsck", "--protocol").code == 0

    monkeypatch.delenv("GEMINI_CLI")
    typed(*line, "log")
    assert (tmp_path / "paged").exists()


@pytest.mark.parametrize("variable", AGENT_MARKS)
def test_environment_variable_of_an_agent_names_the_actor(variable: str, tmp_path: Path) -> None:
    """wfctl records the agent that the variable names, or an agent named unknown."""
    expected = AGENT_MARKS[variable][0]
    for value in ("goose", "a b") if not expected else ("1",):
        name = expected or {"a b": "unknown"}.get(value, value)
        folder = tmp_path / name
        folder.mkdir()
        plan = str(write_plan(tmp_path))
        made = wfctl("init", plan, cwd=folder, environ={variable: value})
        assert made.code == 0, made
        [created] = Place(folder).done("events", "--type", "workflow.created")
        assert created["actor"] == {"kind": "agent", "name": name}
        assert os.environ.get(variable) is None
