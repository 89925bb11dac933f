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
    """Copy each folder, or create an empty copy of a missing one; return both paths."""
    saved = [(folder, copies / str(number)) for number, folder in enumerate(folders)]
    for folder, copy in saved:
        if folder.is_dir():
            shutil.copytree(folder, copy, symlinks=True)
        else:
            copy.mkdir()
    return saved


def built_once(build: Callable[..., Place]) -> Callable[..., Place]:
    """Call the function once for the same arguments, and later restore the files it made.

    The first argument of the function is the folder to build in. The function gets a folder of its
    own, so that the root that it returns always has the same path. The user's configuration and
    state folders are restored as well. Otherwise they would remember a later state of the log, and
    wfctl would report the restored log as changed. `make crash` builds each workflow in the given
    folder, because its log is checked there after the test.
    """
    known: dict[str, tuple[Place, list[tuple[Path, Path]]]] = {}

    @wraps(build)
    def restored(folder: Path, *arguments: Any, **options: Any) -> Place:
        if tries_all():
            return build(folder, *arguments, **options)
        # The user's folders store the consent to a plan. Each test module has its own folders, so
        # they are part of the key.
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
