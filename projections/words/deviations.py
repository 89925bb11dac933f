"""What of a completed stage is not as the log holds it, in words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from projections.words.times import utc_seconds

_PAST = {"changed": "has changed", "missing": "is missing", "touched": "was touched"}


@dataclass(frozen=True, slots=True)
class Deviation:
    """A file that is not what the log holds of it.

    ``what``: result, input. ``kind``: changed, missing, or touched, which a quick look leaves to
    a deep one.
    """

    stage: str
    attempt: str | None
    what: str
    path: str
    kind: str
    since: str
    #: Seconds after that at which the file was last touched; None where it is not there.
    after: float | None = None

    @property
    def is_changed_input(self) -> bool:
        """Whether its stage is stale for it."""
        return self.what == "input" and self.kind != "touched"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        fields = ("stage", "attempt", "what", "path", "kind", "since", "after")
        return {name: getattr(self, name) for name in fields}

    def __str__(self) -> str:
        return f"{self.stage}: {self.said}"

    @property
    def said(self) -> str:
        """What happened, without the stage that it happened to."""
        how = f"{self.stage} left it" if self.what == "result" else f"{self.attempt} read it"
        return f"{self.path} {self._happened} {how} ({utc_seconds(self.since)})"

    @property
    def _happened(self) -> str:
        if self.after is None or self.kind == "missing":
            return f"{_PAST[self.kind]} since"
        return f"{self.kind if self.kind == 'changed' else 'was touched'} {_span(self.after)} after"


def _span(seconds: float) -> str:
    """Return how long it was, in its largest unit: ``2 h``."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
