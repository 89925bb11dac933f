"""A PATH on which a program is missing, as on machines that do not have it."""

from __future__ import annotations

import os
from pathlib import Path


def path_without(missing: str, folder: Path) -> str:
    """Fill a new folder with links to every program of the PATH but one; return it as a PATH."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            link = folder / program.name
            # The first of a name wins. The link itself is asked for, since it may lead
            # to nothing or, as X11 does on Debian, back to where it lies.
            if program.name != missing and not os.path.lexists(link):
                link.symlink_to(program)
    return str(folder)
