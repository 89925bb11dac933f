"""What can be wrong with a tool call before a command runs.

ToolCallError
├── WrongArguments      arguments that the tool does not take
├── UnfitArguments      arguments that do not go together
└── OutsideFolder       a root that this server does not serve
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class ToolCallError(Exception):
    """A call that no command is made of; ``code`` is stable."""

    code = "tool_call"

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.data = data


class WrongArguments(ToolCallError):
    """Fields that do not go together, or are not there."""

    code = "wrong_arguments"

    def __init__(
        self, tool: str, action: str | None, found: Iterable[str], expected: list[str]
    ) -> None:
        named = f"{tool} {action}" if action else tool
        given = ", ".join(sorted(found)) or "nothing"
        super().__init__(
            f"{named}: expected {'; or '.join(expected)}; found {given}.",
            expected=expected,
            found=sorted(found),
        )


class UnfitArguments(ToolCallError):
    """Arguments that the tool's schema does not allow."""

    code = "unfit_arguments"


class OutsideFolder(ToolCallError):
    """A root that lies outside of the folder that the server was started for."""

    code = "outside_folder"

    def __init__(self, root: str, folder: str) -> None:
        super().__init__(
            f"root: expected a folder in {folder}, for which this server was started; found "
            f"{root!r}. Start another server there, or give it a folder above both.",
            root=root,
            folder=folder,
        )
