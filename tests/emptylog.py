"""Create new SQLite logs by copying a migrated log, because migrations are slow.

A migration takes as long as five tests.

The copy equals the result of a migration byte for byte. Tests of migrations, logs on a server and
commands in other processes do not use a copy.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from eventstore.database_url import is_postgres_url
from eventstore.event import HEAD
from eventstore.private_files import create_private_file
from migrations.upgrade import upgrade_database


def made(address: Path | str) -> str | None:
    """Create or migrate a log like `upgrade_database`, but create a new log by copying."""
    if (isinstance(address, str) and is_postgres_url(address)) or not _is_new(Path(address)):
        return upgrade_database(address)
    path = Path(address)
    try:
        create_private_file(path)
        shutil.copyfile(_one(), path)
    except OSError:  # The disk may be full; the migration raises its own error then.
        path.unlink(missing_ok=True)
        return upgrade_database(address)
    return HEAD


def _is_new(path: Path) -> bool:
    """Return whether neither the path nor an SQLite file of it (-wal, -shm) exists."""
    beside = (path.with_name(path.name + end) for end in ("", "-wal", "-shm", "-journal"))
    return path.parent.is_dir() and not any(os.path.lexists(one) for one in beside)


@cache
def _one() -> Path:
    path = Path(tempfile.mkdtemp(prefix="empty-log-")) / "events.db"
    upgrade_database(path)
    return path
