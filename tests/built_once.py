"""Workflows that are costly to build: one process builds each of them once per module."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from tests.cli.support import Place
from tests.rounds import tries_all


def built_once(build: Callable[..., Place]) -> Callable[..., Place]:
    """Call the function once for the same arguments; later calls restore the files it made.

    The first argument is the folder to build in. The function builds in a folder of its own, which
    is the parent of the returned root, because a root must not move. `make crash` builds each
    workflow in the given folder, where the log is checked after the test.
    """
    known: dict[str, tuple[Place, Path]] = {}

    @wraps(build)
    def restored(folder: Path, *arguments: Any, **options: Any) -> Place:
        if tries_all():
            return build(folder, *arguments, **options)
        # The consent to a plan is stored in the folders of the user, which each module replaces.
        user = os.environ["XDG_CONFIG_HOME"], os.environ["XDG_STATE_HOME"]
        key = repr((arguments, sorted(options.items()), user))
        if key not in known:
            own, copies = (Path(tempfile.mkdtemp(dir=folder.parent)) for _ in range(2))
            place = build(own, *arguments, **options)
            known[key] = place, shutil.copytree(own, copies / "copy", symlinks=True)
        place, copy = known[key]
        shutil.rmtree(place.path.parent)
        shutil.copytree(copy, place.path.parent, symlinks=True)
        return place

    return restored
