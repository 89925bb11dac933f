"""wfctl accepts every command that the skills and the text for other agents name."""

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
#: Commands that the texts name for a person, without their arguments.
BARE = {"wfctl amend approve", "wfctl run"}
#: Exit codes for commands that this root refuses, because their state is missing.
REFUSED = {3, 4, 5, 6, 7}


def commands() -> list[str]:
    """Return each command line of the texts once."""
    found = [line for path in TEXTS for line in _COMMAND.findall(path.read_text())]
    return [
        one for one in dict.fromkeys(" ".join(line.split()) for line in found) if one not in BARE
    ]


@pytest.mark.slow
def test_commands_named_in_the_texts_exist(root: Place) -> None:
    """Each command runs or is refused by the rules, but is never unknown."""
    root.call("machine", "task", "login", "task-1", "--title", "x", "--status", "pending")
    answers = [root.call(*_words(line)) for line in commands()]
    assert not [answer for answer in answers if answer.code not in {0, *REFUSED}]


def _words(line: str) -> list[str]:
    words = [WORDS.get(word, word) for word in shlex.split(line)[1:]]
    if words[:2] == ["amend", "propose"]:
        return [word.replace("artifacts.design", "parameters.x") for word in words]
    return words


def test_texts_name_enough_commands() -> None:
    """The texts contain more than 30 commands."""
    assert len(commands()) > 30


@pytest.mark.parametrize("path", SKILLS, ids=lambda path: path.parent.name)
def test_skill_has_valid_front_matter_and_length(path: Path) -> None:
    """The folder has the same name, the description says when to use it, and the body is short."""
    _, head, body = path.read_text().split("---\n", 2)
    said = yaml.safe_load(head)
    assert said["name"] == path.parent.name
    assert re.fullmatch(r"[a-z-]{1,64}", said["name"])
    assert "Use it" in said["description"]
    assert len(said["description"]) <= 1024
    assert len(body) / 4 <= 800
