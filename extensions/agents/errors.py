"""What can be wrong with a tool call before a command runs.

ToolCallError
├── WrongArguments      arguments that the tool does not take
├── UnfitArguments      arguments that do not go together
├── NotOffered          what only a person may do
└── OutsideFolder       a root that this server does not serve
"""

from __future__ import annotations

from wording import Coded


class ToolCallError(Coded):
    """A call that no command is made of; ``code`` is stable."""

    code = "tool_call"


class WrongArguments(ToolCallError):
    """Fields that do not go together, or are not there."""

    code = "wrong_arguments"


class UnfitArguments(ToolCallError):
    """Arguments that the tool's schema does not allow."""

    code = "unfit_arguments"


class NotOffered(ToolCallError):
    """A call that no tool offers; ``next_actions`` names the command of a person."""

    code = "not_offered"


class OutsideFolder(ToolCallError):
    """A root that lies outside of the folder that the server was started for."""

    code = "outside_folder"
