"""Follow the next actions that wfctl suggests, and count the caller's calls and tokens.

The caller does nothing else. ``python -m tests.sessions.followed FIRST LAST`` follows the random
workflows of these seeds and prints a table: the result of each workflow, the number of calls and
the number of tokens (four bytes each).
"""

from __future__ import annotations

import json
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

#: Faults that make a stage fail and that the caller or a person can repair.
FAULTS = (
    "fails", "flaky", "lacking", "prose", "unproved", "silent", "unmet", "full", "sweep",
)  # fmt: skip
#: The probability of an outside change before a call, and the maximum number of changes of each
#: kind.
_MEDDLES, _EACH = 0.15, 2
#: Maximum number of calls before the test fails.
MANY = 150
#: Values that the caller inserts for the placeholders of a suggested command.
WORDS = {"TEXT": "looked at it, and it is so", "PATH=VALUE": "parameters.tolerance=2"}
_BYTES_OF_A_TOKEN = 4


@dataclass
class Followed:
    """A caller that follows next actions in a random workflow, and changes made by others."""

    found: Wild
    chance: random.Random
    calls: int = 0
    bytes_read: int = 0
    world: list[str] = field(default_factory=list)
    #: Contents of ``init.sh`` that a session has already run.
    run_once: set[str] = field(default_factory=set)
    #: The last proposal, and the rejected proposals. The caller does not repeat a rejected
    #: proposal.
    asked: str = ""
    rejected: set[str] = field(default_factory=set)

    @property
    def place(self) -> Place:
        """Return the root of the workflow."""
        return self.found.place

    @property
    def tokens(self) -> int:
        """Return the number of tokens in all answers that the caller has read."""
        return self.bytes_read // _BYTES_OF_A_TOKEN

    def call(self, *words: str) -> Answer:
        """Run a command as the caller, and check that wfctl does not refuse it."""
        answer = self.place.json(*words)
        self.calls += 1
        self.bytes_read += len(answer.out.encode())
        taken = answer.code == 0 or (words[0] == "run" and self._has_ended(answer))
        assert taken, (words, answer.out, self.found.faults, self.world)
        return answer

    def _has_ended(self, answer: Answer) -> bool:
        """Return whether `run` did all possible work, or met this ``init.sh`` first."""
        if answer.envelope["success"]:
            return answer.code == 6
        script = (self.place.path / "init.sh").read_text()
        is_news = answer.error["code"] == "environment_not_ready" and script not in self.run_once
        self.run_once.add(script)
        return is_news

    def follow(self) -> str:
        """Run suggested actions until the workflow ends or a person must decide.

        Returns `completed` or `a person decides`.
        """
        for _ in range(MANY):
            self._meddle()
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
        """Return whether the caller can run the action without a person or unknown value."""
        known = all(need in WORDS for need in action.get("needs", []))
        known = known and action["command"] not in self.rejected
        guess = "PATH=VALUE" in action.get("needs", []) and not self._is_unmet(action["command"])
        return known and not guess and not action.get("person")

    def _is_unmet(self, command: str) -> bool:
        return any(self.found.faults.get(word) == "unmet" for word in shlex.split(command))

    def _do(self, command: str) -> None:
        words = [WORDS.get(word, word) for word in shlex.split(command)[1:]]
        self.asked = command if words[0] == "amend" else self.asked
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
        """Start a command, and kill it when it has started an attempt."""
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

    def _meddle(self) -> None:
        """Sometimes change a parameter, a result or ``init.sh``, as other people may do."""
        if self.chance.random() > _MEDDLES:
            return
        deed = self.chance.choice([self._edit, self._change_result, self._break])
        if self.world.count(deed.__name__) < _EACH and deed():
            self.world.append(deed.__name__)

    def _edit(self) -> bool:
        """Edit a parameter of a waiting stage in the state file; return False without one."""
        path = self.place.path / "workflow-state.json"
        document = json.loads(path.read_text())
        waiting = [one for one in document["stages"] if one["status"] in ("pending", "ready")]
        if not waiting:
            return False
        self.chance.choice(waiting)["parameters"]["by_hand"] = len(self.world)
        path.write_text(json.dumps(document, indent=2) + "\n")
        return True

    def _change_result(self) -> bool:
        """Change an output of a completed stage; return False if no output exists."""
        done = [one for one in self.place.done("status")["stages"] if one["status"] == "completed"]
        paths = [path for one in done for path in (self.place.path / one["id"]).glob("out.txt")]
        if paths:
            self.chance.choice(paths).write_text(f"other {len(self.world)}\n")
        return bool(paths)

    def _break(self) -> bool:
        """Write an ``init.sh`` that fails, so that the next session cannot start."""
        text = f"echo no license {len(self.world)}; exit 3\n"
        (self.place.path / "init.sh").write_text(text)
        return True

    def _asked_a_person(self, status: dict[str, Any]) -> bool:
        """Decide the next open question as a person; return False if no question is open."""
        init = self.place.path / "init.sh"
        if (self.place.path / "PAUSE").exists():
            self.place.done("runner", "resume")
        elif status["pending_amendments"]:
            self._decided(status["pending_amendments"][0])
        elif any(one["kind"] == "drift" for one in status["account"]):
            # wfctl cannot adopt an edit of a state file that was already outdated.
            if self.chance.random() < 0.5 or self.place.call("drift", "adopt").code != 0:
                self.place.done("drift", "revert")
        elif status["changed"]:
            stage = status["changed"][0]["stage"]
            self.place.done("verify", stage, "--adopt", "--reason", "it is better so")
        elif init.exists() and init.read_text() != "true\n":
            init.write_text("true\n")
        else:
            return False
        return True

    def _decided(self, asked: str) -> None:
        about = self.place.done("amend", "show", asked)["amendment"]["description"]
        # The person rejects repeated proposals, and about a third of all others.
        agreed = about not in self.world and self.chance.random() < 0.7
        self.world.append(about if agreed else f"no: {about}")
        self.rejected |= set() if agreed else {self.asked}
        self.place.done("amend", "approve" if agreed else "reject", asked)


def followed(folder: Path, seed: int) -> tuple[Followed, str]:
    """Create the random workflow of a seed, follow its next actions, return the result."""
    chance = random.Random(seed)
    one = Followed(wild(folder, chance, FAULTS), chance)
    return one, one.follow()


def table(first: int, last: int) -> None:
    """Print the calls and tokens of the caller for each seed, and their averages."""
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
