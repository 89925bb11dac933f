"""Errors of a tool call that is refused before a command runs.

ToolCallError
├── WrongArguments      the arguments cannot be combined, or one is missing
├── UnfitArguments      the arguments do not match the schema of the tool
├── NotOffered          only a person may run the command
└── OutsideFolder       this server does not serve the root
"""

from __future__ import annotations

from wording import CodedError


class ToolCallError(CodedError):
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
