"""A command that leads on, as every answer tells it."""

from __future__ import annotations

from typing import Any, NamedTuple


class NextAction(NamedTuple):
    """A command and why one would call it.

    ``needs`` names what is to be put in place of the words in capitals, or to be there first;
    ``person``: only a person decides it. ``verb`` and ``target`` are what it does to what.
    """

    command: str
    reason: str
    needs: tuple[str, ...] = ()
    person: bool = False
    verb: str | None = None
    target: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; what does not hold is left out."""
        found: dict[str, Any] = {"command": self.command, "reason": self.reason}
        if self.verb is not None:
            found |= {"verb": self.verb, "target": self.target}
        if self.needs:
            found["needs"] = list(self.needs)
        return {**found, "person": True} if self.person else found

    def __str__(self) -> str:
        notes = [f"give {', '.join(self.needs)}"] if self.needs else []
        notes += ["a person decides"] if self.person else []
        return f"{self.command}  ({'; '.join([self.reason, *notes])})"
