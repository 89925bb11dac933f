"""What an archive holds, and by which digests it is known.

A zip file: ``events/STREAM.jsonl`` (the recorded events as they were hashed), ``claims.jsonl`` (the
command ids with their digests), ``refusals.jsonl``, the files as they are shown
(``workflow-state.json``, ``progress.log``), ``report.html``, ``ro-crate-metadata.json``, the kept
foreign versions of files (``drift/``), the workflow's own files (``files/PATH``), and last
``manifest.json``. A version that knows no ``files/`` checks them and makes nothing of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from service.errors import ServiceError

NAME = "manifest.json"
CLAIMS, REFUSALS, DRIFT = "claims.jsonl", "refusals.jsonl", "drift/"
FILES = "files/"
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: its last version, and the hash that the chain ends with."""

    name: str
    file: str
    version: int
    head: str


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A file of the archive."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of the workflow that did not go along, and why."""

    path: str
    bytes: int
    why: str


@dataclass(slots=True)
class Manifest:
    """All of it; ``at`` is when the newest event was recorded.

    ``workflow`` is None where the root has machines alone.
    """

    workflow: str | None
    at: str
    streams: list[Stream] = field(default_factory=list)
    files: dict[str, ManifestEntry] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"format": FORMAT, **asdict(self)}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Manifest:
        """Build a manifest from what `to_dict` returned; raises KeyError, TypeError, ValueError."""
        if values["format"] != FORMAT:
            raise ValueError(f"format {values['format']}, and this wfctl reads format {FORMAT}")
        return Manifest(
            values["workflow"],
            values["at"],
            [Stream(**stream) for stream in values["streams"]],
            {name: ManifestEntry(**entry) for name, entry in values["files"].items()},
            [LeftOut(**one) for one in values.get("left_out", [])],
        )


class UnusableArchive(ServiceError):
    """An archive that is not what its manifest says; nothing was made of it."""

    code = "unusable_archive"

    def __init__(self, path: str, name: str | None, why: str) -> None:
        where = f"{path}: {name}" if name else path
        super().__init__(
            f"{where}: {why}. Nothing was made of it; ask for another copy of the archive.",
            path=path,
            name=name,
            why=why,
        )
