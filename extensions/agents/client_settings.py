"""The settings of an agent's client: texts for the user to paste, and the client's own commands.

No function of this module writes a file. The program of the client may write its own settings.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from service.root.atomic_files import content_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Maximum number of seconds that the program of a client may run.
_SECONDS = 60


class SettingsPiece(NamedTuple):
    """A text to paste into a settings file of the user. wfctl never pastes it itself."""

    path: Path
    text: str

    def is_pasted(self) -> bool:
        """Return whether the file has each line of the text, ignoring indents and final commas."""
        found = set(map(_strip_line, read_settings(self.path).splitlines()))
        return found.issuperset(map(_strip_line, self.text.splitlines()))

    def is_mentioned(self) -> bool:
        """Return whether the file mentions wfctl at all."""
        return "wfctl" in read_settings(self.path)


def _strip_line(line: str) -> str:
    return line.strip().rstrip(",")


def read_settings(path: Path) -> str:
    """Return the text of a file of the user; the empty string if the file is missing."""
    return (content_of(path.resolve()) or b"").decode(errors="replace")


class ServerCommands(NamedTuple):
    """The commands with which a client adds the MCP server to its settings and removes it."""

    add: tuple[str, ...]
    remove: tuple[str, ...]
    folder: Path

    def is_supported(self) -> bool:
        """Return whether the program of the client is installed and knows ``mcp add``."""
        # An older program that does not know the subcommand prints its general help instead.
        return "mcp add" in (self.run((self.add[0], "mcp", "add", "--help")) or "")

    def run(self, command: Sequence[str]) -> str | None:
        """Run a command in the folder; return its output, or None if it fails or is missing."""
        with suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_SECONDS,
                check=False,
            )
            if done.returncode == 0:
                return done.stdout.decode(errors="replace")
        return None
