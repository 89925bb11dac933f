"""Workflows with a mandate (permission given in advance), used by an agent and a person."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from tests.amendments.support import Place, make, make_keys
from tests.cli.support import Answer
from tests.cli.terminal import answered

POLICIES = ("terminal", "signature", "trust")
GRANT: dict[str, Any] = {
    "stages": ["stage-1", "stage-2"],
    "amendments": 3,
    "reruns": 2,
    "by": ["agent:*"],
    "values": {"stage-1.parameters.n": {"from": 1, "to": 9, "step": 1}},
}
PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "mandates": {"sampling": GRANT},
    "stages": [
        {
            "id": "stage-1",
            "name": "Build",
            "outputs": ["stage-1/out.txt"],
            "parameters": {
                "command": "echo $WFCTL_PARAM_n > out.txt",
                "n": 1,
                "m": 1,
                "time_limit": 60,
            },
        },
        {
            "id": "stage-2",
            "name": "Run",
            "depends_on": ["stage-1"],
            "outputs": ["stage-2/out.txt"],
            "parameters": {"command": "echo hi > out.txt", "time_limit": 60},
        },
        {"id": "stage-3", "name": "Look"},
    ],
}
BO = ("--actor", "agent:bo")


def plan_with(**more: Any) -> dict[str, Any]:
    """Return the plan with changed bounds of its mandate."""
    found = copy.deepcopy(PLAN)
    found["mandates"]["sampling"] |= more
    return found


class Mandated(Place):
    """A root under one policy, with commands of an agent and of a person."""

    policy: str
    key: Path | None = None

    def agent(self, *words: str) -> Answer:
        """Run a command as an agent."""
        return self.json(*BO, *words)

    def ask(self, value: Any, *more: str, name: str = "n") -> dict[str, Any]:
        """Propose a parameter of stage-1 as an agent, and return the answer."""
        change = f"parameters.{name}={value}"
        words = ("--stage", "stage-1", "--set", change, "--reason", "look further")
        found: dict[str, Any] = self.done(*BO, "amend", "propose", *words, *more)
        return found

    def agreed(self, *words: str) -> None:
        """Run a command that asks for consent, and approve as a person."""
        if self.policy == "trust":
            self.done("--actor", "user:ada", *words)
            return
        signed = ("--key", str(self.key)) if self.policy == "signature" else ()
        code, shown = answered("y\n", "--root", str(self.path), *words, *signed)
        assert code == 0, shown

    def is_sound(self) -> None:
        """Assert that the log follows the rules, and that the files agree with the log."""
        assert self.call("fsck", "--protocol").code == 0, self.call("fsck", "--protocol")
        assert self.call("replay", "--check").code == 0


def made(folder: Path, policy: str, plan: Any = None, *, agreed: bool = True) -> Mandated:
    """Create a workflow root with a mandate, and approve its plan as a person."""
    plan = PLAN if plan is None else plan
    words, key = ["--consent", policy], None
    if policy == "signature":
        (folder / "keys").mkdir()
        keys = make_keys(folder / "keys")
        words, key = [*words, "--signers", str(keys.signers)], keys.allowed
    found = Mandated(make(folder / "root", *words, plan=plan, agreed=agreed).path)
    found.policy, found.key = policy, key
    return found
