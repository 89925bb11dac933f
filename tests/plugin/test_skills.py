"""Every command that the skills (instructions for agents) name exists in wfctl."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from extensions.agents.install import SOURCE
from tests.cli.support import Place

SKILLS = sorted((SOURCE / "skills").glob("*/SKILL.md"))
TEXTS = [*SKILLS, SOURCE / "AGENTS.md"]
_COMMAND = re.compile(r"`(wfctl [^`]+)`")
#: Values that replace the placeholders of a command.
WORDS = {
    "STAGE": "stage-1",
    "ID": "login",
    "TEXT": "so",
    "PATH=VALUE": "artifacts.design=plan.json",
    "TASK": "task-1",
    "STATUS": "pending",
    "PHASE": "plan",
    "SQL": "SELECT 1",
}
#: Commands that the texts mention without arguments, because only a person runs them.
BARE = {"wfctl amend approve", "wfctl run"}
#: Exit codes of commands that are valid but cannot succeed in the root of the test.
REFUSED = {3, 4, 5, 6, 7}


def commands() -> list[str]:
    """Return all wfctl commands in the skills and in AGENTS.md, without duplicates."""
    found = [line for path in TEXTS for line in _COMMAND.findall(path.read_text())]
    return [
        one for one in dict.fromkeys(" ".join(line.split()) for line in found) if one not in BARE
    ]


@pytest.mark.slow
def test_commands_named_in_the_texts_exist(root: Place) -> None:
    """wfctl runs each command, or refuses it for a good reason, but never as unknown."""
    root.call("machine", "task", "login", "task-1", "--title", "x", "--status", "pending")
    answers = [root.call(*_words(line)) for line in commands()]
    assert not [answer for answer in answers if answer.code not in {0, *REFUSED}]


def _words(line: str) -> list[str]:
    words = [WORDS.get(word, word) for word in shlex.split(line)[1:]]
    if words[:2] == ["amend", "propose"]:
        return [word.replace("artifacts.design", "parameters.x") for word in words]
    return words


def test_texts_name_enough_commands() -> None:
    """The skills and AGENTS.md contain more than 30 commands to check."""
    assert len(commands()) > 30


@pytest.mark.parametrize("path", SKILLS, ids=lambda path: path.parent.name)
def test_skill_has_valid_front_matter_and_length(path: Path) -> None:
    """The skill has the name of its folder, a description of its use, and a short text."""
    _, head, body = path.read_text().split("---\n", 2)
    said = yaml.safe_load(head)
    assert said["name"] == path.parent.name
    assert re.fullmatch(r"[a-z-]{1,64}", said["name"])
    assert "Use it" in said["description"]
    assert len(said["description"]) <= 1024
    assert len(body) / 4 <= 800
