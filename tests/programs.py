"""A PATH without a certain program, as on machines that lack it."""

from __future__ import annotations

import os
from pathlib import Path


def path_without(missing: str, folder: Path) -> str:
    """Fill a new folder with links to the programs of PATH except one; return its path."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            link = folder / program.name
            # The first program of a name on PATH wins. The link itself is checked, because its
            # target may be missing.
            if program.name != missing and not os.path.lexists(link):
                link.symlink_to(program)
    return str(folder)
