"""An item of the account of a workflow."""

from __future__ import annotations

from typing import NamedTuple


class Item(NamedTuple):
    """One thing of the account.

    ``kind``: log, amendment, unagreed, drift, verdict, judgement, stop, failure, stale, script,
    input, environment, taken over, adopted, edit, rewritten, module, journal, or changed, missing
    or touched result.
    ``person``: it waits for somebody. ``stage`` is the one that it is about, if one is.
    """

    kind: str
    subject: str
    text: str
    stage: str | None = None
    person: bool = True

    @property
    def is_of_files(self) -> bool:
        """Whether it is about files that changed, and what was computed from them."""
        return self.kind in ("drift", "stale") or self.kind.endswith(" result")

    def __str__(self) -> str:
        return " ".join(f"{self.kind} {self.subject}: {self.text}".split())
