"""Skills, the text for other agents, and the guard's advice: every command in them is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from agents.install import SOURCE
from tests.cli.support import Place

SKILLS = sorted((SOURCE / "skills").glob("*/SKILL.md"))
TEXTS = [*SKILLS, SOURCE / "AGENTS.md", SOURCE / "hooks" / "guard.sh"]
_COMMAND = re.compile(r"`(wfctl [^`]+)`")
#: What stands for a word of one's own.
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
#: Commands that are named as those of a person, without what they take.
BARE = {"wfctl amend approve", "wfctl run"}
#: What is under way in a root by itself, or takes an answer that is not there yet.
REFUSED = {3, 4, 5, 6, 7}


def commands() -> list[str]:
    """Return each command line of the texts once."""
    found = [line for path in TEXTS for line in _COMMAND.findall(path.read_text())]
    return [
        one for one in dict.fromkeys(" ".join(line.split()) for line in found) if one not in BARE
    ]


@pytest.mark.slow
def test_each_command_that_is_named_is_taken(root: Place) -> None:
    """It runs, or is refused by the rules; it is never one that wfctl does not know."""
    root.call("machine", "task", "login", "task-1", "--title", "x", "--status", "pending")
    answers = [root.call(*_words(line)) for line in commands()]
    assert not [answer for answer in answers if answer.code not in {0, *REFUSED}]


def _words(line: str) -> list[str]:
    words = [WORDS.get(word, word) for word in shlex.split(line)[1:]]
    if words[:2] == ["amend", "propose"]:
        return [word.replace("artifacts.design", "parameters.x") for word in words]
    return words


def test_enough_commands_are_tried() -> None:
    """The texts are full of them."""
    assert len(commands()) > 30


@pytest.mark.parametrize("path", SKILLS, ids=lambda path: path.parent.name)
def test_a_skill_is_one_that_clients_take(path: Path) -> None:
    """Its name is its folder's, its description says when, and it is short."""
    _, head, body = path.read_text().split("---\n", 2)
    said = yaml.safe_load(head)
    assert said["name"] == path.parent.name
    assert re.fullmatch(r"[a-z-]{1,64}", said["name"])
    assert "Use it" in said["description"]
    assert len(said["description"]) <= 1024
    assert len(body) / 4 <= 800
