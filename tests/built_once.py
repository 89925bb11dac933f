"""Build costly workflows once per test module, and restore them for later tests."""

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


def _copy(folders: list[Path], copies: Path) -> list[tuple[Path, Path]]:
    """Copy folders, a missing folder as an empty one; return each folder with its copy."""
    saved = [(folder, copies / str(number)) for number, folder in enumerate(folders)]
    for folder, copy in saved:
        if folder.is_dir():
            shutil.copytree(folder, copy, symlinks=True)
        else:
            copy.mkdir()
    return saved


def built_once(build: Callable[..., Place]) -> Callable[..., Place]:
    """Call the function once for the same arguments; later calls restore the files it made.

    The first argument is the folder to build in. The function builds in a folder of its own, which
    is the parent of the returned root, because a root must not move. The user's folders of
    configuration and state are restored too: a pin of a later log would accuse the restored one.
    `make crash` builds each workflow in the given folder, where the log is checked after the test.
    """
    known: dict[str, tuple[Place, list[tuple[Path, Path]]]] = {}

    @wraps(build)
    def restored(folder: Path, *arguments: Any, **options: Any) -> Place:
        if tries_all():
            return build(folder, *arguments, **options)
        # The consent to a plan is stored in the folders of the user, which each module replaces.
        user = [Path(os.environ[name]) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")]
        key = repr((arguments, sorted(options.items()), user))
        if key not in known:
            own, copies = (Path(tempfile.mkdtemp(dir=folder.parent)) for _ in range(2))
            known[key] = build(own, *arguments, **options), _copy([own, *user], copies)
        place, saved = known[key]
        for original, copy in saved:
            shutil.rmtree(original, ignore_errors=True)
            shutil.copytree(copy, original, symlinks=True)
        return place

    return restored
