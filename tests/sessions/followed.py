"""A caller that knows nothing of wfctl: it does what it is told next, and counts what that costs.

``python -m tests.sessions.followed FIRST LAST`` follows the workflows of these seeds and prints a
table: how each ended, in how many calls, and how many tokens (four bytes each) it had to read.
"""

from __future__ import annotations

import random
import shlex
import signal
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cli.support import Answer, Place
from tests.crash.support import until
from tests.sessions.support import events, started, statuses
from tests.sessions.wild import Wild, wild

#: What the stages suffer from: what a caller, or a person, can do something about.
FAULTS = ("fails", "flaky", "lacking", "prose", "unproved", "silent", "unmet", "full")
#: The exit codes of a command that was no refusal: done, a person is wanted.
TAKEN = (0, 6)
#: Calls until it is certain that nothing leads anywhere.
MANY = 100
#: What a caller puts in place of the words in capitals that it is asked for.
WORDS = {"TEXT": "looked at it, and it is so", "PATH=VALUE": "parameters.tolerance=2"}
_BYTES_OF_A_TOKEN = 4


@dataclass
class Followed:
    """One workflow, how its calls went, and what the world did in between."""

    found: Wild
    chance: random.Random
    calls: int = 0
    bytes_read: int = 0
    world: list[str] = field(default_factory=list)

    @property
    def place(self) -> Place:
        """The workflow's root."""
        return self.found.place

    @property
    def tokens(self) -> int:
        """What the caller had to read."""
        return self.bytes_read // _BYTES_OF_A_TOKEN

    def call(self, *words: str) -> Answer:
        """Call a command, which must not be refused, as the caller does."""
        answer = self.place.json(*words)
        self.calls += 1
        self.bytes_read += len(answer.out.encode())
        assert answer.code in TAKEN, (words, answer.out, self.found.faults, self.world)
        return answer

    def follow(self) -> str:
        """Do what comes next until nothing does without a person; return how it ended."""
        for _ in range(MANY):
            status = self.call("status")
            if status.data["status"] == "completed":
                return "completed"
            usable = [one for one in status.envelope["next_actions"] if self._is_usable(one)]
            if usable:
                self._do(usable[0]["command"])
            elif not self._asked_a_person(status.data):
                return "a person decides"
        raise AssertionError(f"{MANY} calls led nowhere: {statuses(self.place)}, {self.world}")

    def _is_usable(self, action: dict[str, Any]) -> bool:
        """Whether the caller can do it: no person decides, and it knows each word to put in."""
        known = all(need in WORDS for need in action.get("needs", []))
        guess = "PATH=VALUE" in action.get("needs", []) and not self._is_unmet(action["command"])
        return known and not guess and not action.get("person")

    def _is_unmet(self, command: str) -> bool:
        return any(self.found.faults.get(word) == "unmet" for word in shlex.split(command))

    def _do(self, command: str) -> None:
        words = [WORDS.get(word, word) for word in shlex.split(command)[1:]]
        luck = self.chance.random()
        if words[0] in ("run", "dispatch") and luck < 0.2:
            self._killed(words)
            return
        if luck > 0.9 and words[0] not in ("wait", "reconcile"):
            self.world.append("pause")
            (self.place.path / "PAUSE").touch()
            return
        self.call(*words)

    def _killed(self, words: list[str]) -> None:
        """Begin what comes next, and be killed in the middle of it."""
        self.world.append(f"killed in {words[0]}")
        before = len(events(self.place, "attempt.started"))
        process = started(self.place, *words)
        until(
            lambda: (
                process.poll() is not None or len(events(self.place, "attempt.started")) > before
            )
        )
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def _asked_a_person(self, status: dict[str, Any]) -> bool:
        """Have a person decide what waits for one; False where nobody has an answer."""
        if (self.place.path / "PAUSE").exists():
            self.place.done("runner", "resume")
            return True
        if not status["pending_amendments"]:
            return False
        asked = status["pending_amendments"][0]
        about = self.place.done("amend", "show", asked)["amendment"]["description"]
        # Nobody agrees to the same thing twice, and to a third of all things nobody does.
        agreed = about not in self.world and self.chance.random() < 0.7
        self.world.append(about if agreed else f"no: {about}")
        self.place.done("amend", "approve" if agreed else "reject", asked)
        return agreed


def followed(folder: Path, seed: int) -> tuple[Followed, str]:
    """Make the workflow of a seed and follow what it says is next."""
    chance = random.Random(seed)
    one = Followed(wild(folder, chance, FAULTS), chance)
    (one.place.path / "init.sh").unlink(missing_ok=True)
    return one, one.follow()


def table(first: int, last: int) -> None:
    """Print what the caller of each seed had to do and to read."""
    print(f"{'seed':>5} {'stages':>6} {'calls':>6} {'tokens':>7}  ended")
    calls = tokens = 0
    for seed in range(first, last + 1):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            one, ended = followed(Path(folder), seed)
        calls, tokens = calls + one.calls, tokens + one.tokens
        faults = one.found.faults
        print(
            f"{seed:>5} {len(faults):>6} {one.calls:>6} {one.tokens:>7}  {ended}"
            f" ({', '.join(one.world)})",
            flush=True,
        )
    count = last - first + 1
    print(f"{count} workflows: {calls / count:.1f} calls, {tokens / count:.0f} tokens each")


if __name__ == "__main__":
    table(int(sys.argv[1]), int(sys.argv[2]))
