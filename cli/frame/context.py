"""The part of a typer context that command functions use."""

from __future__ import annotations

from typing import Any, Protocol


class Context(Protocol):
    """The call of a command, with the values of its parameters.

    A `typer.Context` has these attributes, and so has a `cli.program.plain_calls.PlainContext`.
    """

    #: The values of the global options.
    obj: Any
    #: Parameter of the command → its value.
    params: dict[str, Any]
    #: Name of the command below its group.
    info_name: str | None

    def find_root(self) -> Context:
        """Return the context of the whole program, which has the global options."""
        ...

    def get_parameter_source(self, name: str) -> Any:
        """Return where the value of a parameter comes from, for example ``COMMANDLINE``."""
        ...
