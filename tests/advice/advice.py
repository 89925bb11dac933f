"""The commands that an answer suggests, and a check that each of them works."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from cli.frame.exit_codes import DONE, FINDINGS, NEEDS_PERSON
from tests.cli.support import Answer, wfctl

_QUOTED = re.compile(r"`wfctl ([^`]*)`")
#: A word in capitals, which stands for a value that the reader must fill in.
_OPEN = re.compile(r"^[A-Z][A-Z_]{2,}$")
#: Commands that only print, by their first words.
READS = frozenset(
    (
        *("status", "show", "log", "logs", "events", "help", "schema", "fsck", "list", "why"),
        *("blame", "diff", "audit", "inbox", "report", "tasks", "metrics", "compare"),
        *("amend list", "amend show", "runner show", "drift show", "plan check", "db url"),
        *("machine list", "machine get", "machine describe", "machine check", "machine rehydrate"),
        *("stage verify", "stage diagnose", "rehydrate", "reconcile", "wait", "verify"),
    )
)


class Advice(NamedTuple):
    """A command that an answer suggests, and its properties."""

    line: str
    person: bool = False
    needs: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """Return the arguments of the command."""
        return shlex.split(self.line)

    @property
    def open_words(self) -> list[str]:
        """Return the placeholders (words in capitals) of the command line."""
        return [word for word in self.words if _OPEN.match(word)]

    @property
    def is_read(self) -> bool:
        """Return whether the command only prints."""
        first = self.words[:2]
        return bool({" ".join(first), *first[:1]} & READS) or "--help" in self.words

    def filled(self, given: dict[str, str]) -> list[str]:
        """Return the arguments with each placeholder replaced by its given value."""
        return [given.get(word, word) for word in self.words]


def said(answer: Answer) -> str:
    """Return the message of a failure, from JSON or text output."""
    if answer.out.startswith("{"):
        message: str = answer.error["message"]
        return message
    return answer.err


def advised(answer: Answer) -> list[Advice]:
    """Return the commands in the message of a failure, and its first next action."""
    found = [Advice(line.strip()) for line in _QUOTED.findall(said(answer))]
    for actions in (_next(answer.envelope), _next(answer.error["data"])):
        found += [_action(one) for one in actions[:1]]
    return list(dict.fromkeys(found))


def _next(holder: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = holder.get("next_actions", [])
    return found


def _action(one: dict[str, Any]) -> Advice:
    line = one["command"].removeprefix("wfctl ")
    return Advice(line, one.get("person", False), tuple(one.get("needs", ())))


def world(folder: Path) -> str:
    """Return a digest of all files that a command may change: the folder and the user's data."""
    digest = sha256()
    for top in (folder, *_of_this_login()):
        for path in sorted(top.rglob("*")):
            digest.update(str(path).encode())
            if path.is_file() and not path.is_symlink():
                with suppress(FileNotFoundError):  # a running job may remove its own files
                    digest.update(path.read_bytes())
    return digest.hexdigest()


def _of_this_login() -> Iterator[Path]:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        if name in os.environ:
            yield Path(os.environ[name])


def fault(advice: Advice, root: Path, given: dict[str, str], *, person_named: bool) -> str:
    """Run a suggested command, and return the reason why it fails, or an empty string."""
    words = advice.filled(given)
    if advice.needs or any(_OPEN.match(word) for word in words):
        return _unknown(advice, root)
    if "--follow" in words:
        return _endless(words, root)
    before = world(root.parent)
    answer = wfctl(*words, cwd=root)
    if answer.code == NEEDS_PERSON:
        named = advice.person or person_named
        return "" if named else f"only a person may, and nobody says so: {answer.err}"
    if answer.code not in ((DONE, FINDINGS) if advice.is_read else (DONE,)):
        return f"refused ({answer.code}): {answer.out}{answer.err}"
    if advice.is_read or world(root.parent) != before:
        return ""
    return "it changed nothing"


def _endless(words: list[str], root: Path) -> str:
    """Return an error if a command that should run for ever ends."""
    try:
        answer = wfctl(*words, cwd=root, environ={"PYTHONUNBUFFERED": "1"}, within=3)
    except subprocess.TimeoutExpired:
        return ""
    return f"it ended ({answer.code}): {answer.out}{answer.err}"


def _unknown(advice: Advice, root: Path) -> str:
    """Return the command or options of a line with placeholders that wfctl does not know."""
    names = [word for word in advice.words if not _OPEN.match(word)]
    command = names[: next((n for n, w in enumerate(names) if w.startswith("-")), len(names))]
    while command:
        told = wfctl(*command, "--help", cwd=root)
        if told.code == DONE:
            strange = [w for w in names if w.startswith("--") and w not in told.out]
            return f"no option {strange}" if strange else ""
        command = command[:-1]
    return "no such command"
