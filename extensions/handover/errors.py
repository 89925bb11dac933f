"""The errors of archives.

ServiceError
└── UnusableArchive    the archive differs from its manifest
"""

from __future__ import annotations

from pathlib import Path

from service.errors import ServiceError


class UnusableArchive(ServiceError):
    """An archive that is damaged or differs from its manifest."""

    code = "unusable_archive"

    def __init__(self, path: Path, name: str | None, why: str) -> None:
        place = f"{path}: {name}" if name else path
        super().__init__(
            f"{place}: {why}. Nothing was imported; get another copy of the archive.",
            path=str(path),
            name=name,
            why=why,
        )
