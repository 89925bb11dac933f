"""Check and change the settings of an AI agent's client program.

The module provides text for the user to paste, and runs the client's own commands. No function of
this module writes a settings file; only the client program does.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from service.root.atomic_files import content_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Maximum number of seconds that a command of the client program may run.
_SECONDS = 60


class SettingsPiece(NamedTuple):
    """A text for the user to paste into a settings file.

    wfctl never pastes the text automatically.
    """

    path: Path
    text: str

    def is_pasted(self) -> bool:
        """Return whether the settings file contains each line of the text.

        Indentation and final commas are ignored.
        """
        found = set(map(_strip_line, read_settings(self.path).splitlines()))
        return found.issuperset(map(_strip_line, self.text.splitlines()))

    def is_wfctl_mentioned(self) -> bool:
        """Return whether the settings file contains the word ``wfctl``."""
        return "wfctl" in read_settings(self.path)


def _strip_line(line: str) -> str:
    return line.strip().rstrip(",")


def read_settings(path: Path) -> str:
    """Return the text of a settings file, or an empty string if the file is missing."""
    return (content_of(path.resolve()) or b"").decode(errors="replace")


class ServerCommands(NamedTuple):
    """The commands with which a client adds the MCP server to its settings and removes it."""

    add: tuple[str, ...]
    remove: tuple[str, ...]
    folder: Path

    def is_supported(self) -> bool:
        """Return whether the client program is installed and supports ``mcp add``."""
        # Search the help text, because an older program exits successfully and prints its general
        # help for an unknown subcommand.
        return "mcp add" in (self.run((self.add[0], "mcp", "add", "--help")) or "")

    def run(self, command: Sequence[str]) -> str | None:
        """Run a command of the client program in the folder and return its output.

        Returns None if the program is missing, fails, or does not end in time.
        """
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
