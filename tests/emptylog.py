"""New SQLite logs, copied from one that a migration made: a migration takes as long as five tests.

What is copied is what a migration makes, byte for byte. Migrations themselves, logs on a server and
commands in processes of their own are never given a copy.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from eventstore.event import HEAD
from eventstore.private import is_server, make_file
from migrations.upgrade import upgrade


def made(address: Path | str) -> str | None:
    """Do as `migrations.upgrade.upgrade` does; a file that is not there yet is a copy."""
    if (isinstance(address, str) and is_server(address)) or not _is_new(Path(address)):
        return upgrade(address)
    path = Path(address)
    try:
        make_file(path)
        shutil.copyfile(_one(), path)
    except OSError:  # such as on a full disk, of which the migration makes its own error
        path.unlink(missing_ok=True)
        return upgrade(address)
    return HEAD


def _is_new(path: Path) -> bool:
    """Whether nothing is at a path, nor beside it what SQLite would take for a part of it."""
    beside = (path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-journal"))
    return path.parent.is_dir() and not any(os.path.lexists(one) for one in beside)


@cache
def _one() -> Path:
    path = Path(tempfile.mkdtemp(prefix="empty-log-")) / "events.db"
    upgrade(path)
    return path
