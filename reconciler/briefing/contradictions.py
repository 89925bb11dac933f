"""Contradictions: where what is so and what was said of it do not fit together.

Each goes by one finding (see `reconciler.briefing.denials`) or by the state alone, and by times
that were recorded, never by a clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reconciler.briefing.ranges import shortened


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Things of one kind that do not fit; ``subjects`` are stages or files."""

    kind: str
    subjects: tuple[str, ...]
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"kind": self.kind, "subjects": shortened(self.subjects), "text": self.text}
