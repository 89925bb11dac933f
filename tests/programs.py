"""A PATH without a certain program, as on machines that lack it."""

from __future__ import annotations

import os
from pathlib import Path


def path_without(missing: str, folder: Path) -> str:
    """Fill a new folder with links to all programs of PATH except one, and return it as a PATH."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            link = folder / program.name
            # The first program of a name is used. Check the link itself, because its target may not
            # exist
            # or may be its own folder, as for X11 on Debian.
            if program.name != missing and not os.path.lexists(link):
                link.symlink_to(program)
    return str(folder)
