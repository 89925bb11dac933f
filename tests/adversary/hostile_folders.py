"""Generate a stranger's roots from seeds: copies of an honest root with replaced files."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from shutil import copytree, rmtree

from tests.adversary.hostile import TEXTS, VALUES, spoilt

#: Files that an attacker may add to a workflow root.
_NEW = (
    ".wfctl/sync.json",
    ".wfctl/root.json",
    ".wfctl/drift",
    ".wfctl/machines",
    ".wfctl/checkpoints",
    ".wfctl/events.db-lock",
    ".wfctl/events.db-queue",
    ".wfctl/events.db-wal",
    ".wfctl/lock",
    ".wfctl/events.db-shm",
    ".wfctl/stop",
    ".wfctl/session.lock",
    "init.sh",
    "docs/report.md",
    "docs",
    "stage-1/DPDISP_DONE",
    "stage-1/DPDISP_EXIT_CODE",
    "stage-1/submission.json",
    "stage-1/out.txt",
    "stage-1/checkpoint.json",
    "stage-1/.attempts",
    "stage-2",
    "stage-2/submission.json",
    "stage-2/DPDISP_DONE",
    "stage-2/.monitor.lock",
    "phase.json",
    "state/wf",
    ".autonomous",
)
#: SQL statements with which an attacker changes the event log of a root.
_SQL = (
    "DROP TABLE commands",
    "DROP TABLE folds",
    "DELETE FROM alembic_version",
    "DROP TABLE events",
    "UPDATE alembic_version SET version_num = '../../x'",
    "PRAGMA user_version = 999999",
    "ALTER TABLE events RENAME TO other",
    "CREATE VIEW v_events AS SELECT 1",
    "PRAGMA application_id = 1",
    "INSERT INTO refusals VALUES (99, x'00', 1, 2, 3, 4, 5, '[')",
    "INSERT INTO commands VALUES ('x', x'ff', 'y', 'one', -1)",
    "INSERT INTO folds VALUES ('workflow-melt-2026-03-31', 'workflow 1', 1, 2, x'00')",
    "UPDATE folds SET state = zeroblob(100000)",
    "DROP TRIGGER events_no_update",
    "CREATE TRIGGER evil AFTER INSERT ON events BEGIN DELETE FROM commands; END",
    "CREATE TABLE sqlean (a)",
    "UPDATE folds SET version = 9223372036854775807",
    "INSERT INTO events VALUES (1000, 's', 1, 'e', 't', 'r', 'h', x'ff', NULL)",
)
_SPARSE = 1 << 30


def root(honest: Path, target: Path, outside: Path, random: Random) -> Path:
    """Copy an honest root, and replace some of its files."""
    copytree(honest, target, symlinks=True)
    found = sorted(str(path.relative_to(target)) for path in target.rglob("*"))
    own = [name for name in found if name.startswith((".wfctl", "workflow-state", "progress"))]
    for _ in range(random.randint(1, 3)):
        place = target / random.choice(random.choice((found, own, _NEW)))
        # An earlier replacement may have removed the folder of this file, so the file cannot be
        # written.
        with suppress(OSError):
            _exchange(place, outside, random)
    return target


def _exchange(place: Path, outside: Path, random: Random) -> None:
    if os.path.realpath(place.parent) != str(place.parent) or not place.parent.parent.exists():
        return
    place.parent.mkdir(exist_ok=True)
    ways = [_linked, _linked, _special, _bytes, _document, _sparse]
    if place.name == "events.db":
        ways += [_asked] * 6
    random.choice(ways)(place, outside, random)


def _gone(place: Path) -> None:
    if place.is_symlink() or not place.is_dir():
        place.unlink(missing_ok=True)
    else:
        rmtree(place)


def _linked(place: Path, outside: Path, random: Random) -> None:
    """Replace a file with a link to a foreign file, to itself, or to nothing."""
    _gone(place)
    targets = (
        outside,
        outside / "precious",
        outside / "none",
        "/etc/passwd",
        place.name,
        "/dev/zero",
    )
    place.symlink_to(random.choice(targets))


def _special(place: Path, outside: Path, random: Random) -> None:
    _gone(place)
    kind = random.randrange(4)
    if kind == 0:
        os.mkfifo(place)
    elif kind < 3:
        place.mkdir()
    if kind == 2:
        os.mkfifo(place / "inside")


def _bytes(place: Path, outside: Path, random: Random) -> None:
    """Change, cut or replace the bytes of a file."""
    content = bytearray(place.read_bytes() if place.is_file() else b"")
    if not content or random.random() < 0.4:
        content = bytearray(
            random.choice((b"", b"\0" * 9, b"\xff\xfe", b"[" * 5_000, b"9" * 5_000))
        )
    elif random.random() < 0.5:
        del content[random.randrange(len(content)) :]
    else:
        for _ in range(random.randint(1, 30)):
            content[random.randrange(len(content))] = random.randrange(256)
    _gone(place)
    place.write_bytes(content)


def _document(place: Path, outside: Path, random: Random) -> None:
    """Write damaged JSON or TOML into a file."""
    try:
        value = json.loads(place.read_text())
    except (OSError, ValueError, RecursionError):
        value = {"workflow": "w", "pid": 1, "version": 1, "head": {}, "files": {}}
    text = json.dumps(spoilt(value, random))
    if place.suffix == ".toml":
        names = ("workflow", "database_url", "journal", "notify", "machines", "x")
        chosen = {name: random.choice([*TEXTS, *VALUES]) for name in random.sample(names, 3)}
        text = "\n".join(f"{name} = {json.dumps(value)}" for name, value in chosen.items())
    _gone(place)
    place.write_text(text, "utf-8", errors="surrogatepass")


def _sparse(place: Path, outside: Path, random: Random) -> None:
    """Write a sparse file that needs no disk space but would fill the memory."""
    _gone(place)
    with place.open("wb") as file:
        file.truncate(_SPARSE)


def _asked(place: Path, outside: Path, random: Random) -> None:
    """Run one or two random SQL statements of the attacker on the event log."""
    with closing(sqlite3.connect(place)) as database:
        for statement in random.sample(_SQL, random.randint(1, 2)):
            with suppress(sqlite3.DatabaseError):
                database.execute(statement)
        database.commit()
