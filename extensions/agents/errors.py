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
    """A tool call that was refused before any command ran; ``code`` is stable."""

    code = "tool_call"


class WrongArguments(ToolCallError):
    """A tool call with arguments that cannot be combined, or without a required argument."""

    code = "wrong_arguments"


class UnfitArguments(ToolCallError):
    """A tool call with arguments that do not match the tool's schema."""

    code = "unfit_arguments"


class NotOffered(ToolCallError):
    """A tool call for an action that only a person may perform.

    ``next_actions`` contains the command for the person.
    """

    code = "not_offered"


class OutsideFolder(ToolCallError):
    """A workflow folder outside the folder that the server serves."""

    code = "outside_folder"
