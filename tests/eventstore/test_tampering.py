"""Verification finds a manipulated log and names the first bad version."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from itertools import product
from pathlib import Path

import pytest

from eventstore.chain import Link
from eventstore.errors import EventStoreError
from eventstore.schema import Schema
from eventstore.store import Claim
from eventstore.verification import Finding
from tests.eventstore.support import claim, note, notes, sqlite_store

LENGTH = 6


@pytest.fixture
def log(database: Path) -> Path:
    """Return a log with six events in one stream and two in another."""
    with closing(sqlite_store(database, "truncate")) as store:
        store.append("w", notes(LENGTH), expected=0, claim=claim())
        store.append("x", notes(2), expected=0, claim=claim())
    return database


def tamper(path: Path, *statements: str) -> None:
    """Drop the triggers that protect the log, and change the log with SQL."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, verb in product(("events", "commands"), ("update", "delete")):
            connection.execute(f"DROP TRIGGER {table}_no_{verb}")
        connection.create_function("sha", 1, lambda text: sha256(text.encode()).hexdigest())
        for statement in statements:
            connection.execute(statement)


def found_in(path: Path, anchors: dict[str, Link] | None = None) -> list[Finding]:
    """Return the findings of a verification."""
    with closing(sqlite_store(path, read_only=True)) as store:
        return list(store.verify(anchors=anchors))


def anchor_of(path: Path, stream: str = "w") -> dict[str, Link]:
    """Return the version and hash of a stream's last event, as kept outside the database."""
    with closing(sqlite_store(path, read_only=True)) as store:
        head = store.head(stream)
    assert head is not None
    return {stream: Link(head.version, head.hash)}


INSERTED = (
    "INSERT INTO events SELECT 50, stream, 3, 'forged', type, recorded_at, hash, body, NULL "
    "FROM events WHERE stream = 'w' AND version = 2"
)
MIDDLE = "WHERE stream = 'w' AND version = 3"


@pytest.mark.parametrize(
    ("statements", "version", "kind"),
    [
        ([f"UPDATE events SET body = replace(body, 'line', 'lime') {MIDDLE}"], 3, "altered"),
        ([f"UPDATE events SET hash = sha(hash) {MIDDLE}"], 3, "altered"),
        (
            [
                f"UPDATE events SET body = replace(body, 'line', 'lime') {MIDDLE}",
                f"UPDATE events SET hash = sha(body) {MIDDLE}",
            ],
            4,
            "unlinked",
        ),
        ([f"UPDATE events SET type = 'note.sung' {MIDDLE}"], 3, "misfiled"),
        ([f"UPDATE events SET event_id = 'other' {MIDDLE}"], 3, "misfiled"),
        ([f"UPDATE events SET recorded_at = 'later' {MIDDLE}"], 3, "misfiled"),
        ([f"UPDATE events SET body = '[1]', hash = sha('[1]') {MIDDLE}"], 3, "malformed"),
        ([f"UPDATE events SET body = 'no', hash = sha('no') {MIDDLE}"], 3, "malformed"),
        ([f"UPDATE events SET body = cast(x'ff' AS TEXT) {MIDDLE}"], 3, "altered"),
        ([f"DELETE FROM events {MIDDLE}"], 3, "gap"),
        (["DELETE FROM events WHERE stream = 'w' AND version = 1"], 1, "gap"),
        ([f"UPDATE events SET position = 99 {MIDDLE}"], 4, "order"),
        (
            [
                f"UPDATE events SET version = 99 {MIDDLE}",
                "UPDATE events SET version = 3 WHERE stream = 'w' AND version = 4",
                "UPDATE events SET version = 4 WHERE version = 99",
            ],
            3,
            "misfiled",
        ),
        (
            [
                "UPDATE events SET version = version + 10 WHERE stream = 'w' AND version > 2",
                INSERTED,
                "UPDATE events SET version = version - 9 WHERE stream = 'w' AND version > 10",
            ],
            3,
            "misfiled",
        ),
        (["DELETE FROM commands WHERE stream = 'w'"], 1, "unclaimed"),
        (["UPDATE commands SET last_version = 4 WHERE stream = 'w'"], 5, "unclaimed"),
        (["UPDATE commands SET stream = 'x' WHERE stream = 'w'"], 1, "unclaimed"),
        (["UPDATE commands SET first_version = 'one' WHERE stream = 'w'"], 1, "unclaimed"),
    ],
    ids=[
        "text changed",
        "hash changed",
        "text and hash changed",
        "type column",
        "id column",
        "time column",
        "not an envelope",
        "not JSON",
        "not UTF-8",
        "row dropped",
        "first row dropped",
        "position changed",
        "rows swapped",
        "row inserted",
        "claim dropped",
        "claim cut short",
        "claim given to another stream",
        "claim damaged",
    ],
)
def test_change_is_found_with_its_version(
    log: Path, statements: list[str], version: int, kind: str
) -> None:
    """For each manipulation, the first finding names the first bad version."""
    tamper(log, *statements)
    first = next(found for found in found_in(log) if found.stream == "w")
    assert (first.version, first.kind) == (version, kind)


def test_event_that_lost_its_claim_is_found(log: Path) -> None:
    """`verify` finds an event without its command id, whose command could run again."""
    alone = note("alone")
    with closing(sqlite_store(log)) as store:
        store.append("w", [alone], expected=LENGTH, claim=Claim(alone.event_id, "d"))
    assert found_in(log) == []
    columns = "position, stream, version, event_id, type, recorded_at, hash, body"
    with closing(sqlite3.connect(log)) as connection, connection:
        connection.execute(
            f"INSERT OR REPLACE INTO events ({columns}) SELECT {columns} FROM events "
            f"WHERE event_id = '{alone.event_id}'"
        )
    [found] = found_in(log)
    assert (found.stream, found.version, found.kind) == ("w", LENGTH + 1, "unclaimed")


def test_truncated_log_is_found_by_the_anchor(log: Path) -> None:
    """`verify` compares the valid but shorter chain with the known last hash."""
    anchors = anchor_of(log)
    tamper(log, "DELETE FROM events WHERE stream = 'w' AND version > 4")
    first = found_in(log, anchors)[0]
    assert (first.stream, first.version, first.kind) == ("w", 5, "cut_tail")


def test_rewritten_history_is_found_by_the_anchor(log: Path, tmp_path: Path) -> None:
    """`verify` finds valid hashes that differ from a hash known from outside."""
    anchors = anchor_of(log)
    tamper(log, "DELETE FROM events", "DELETE FROM commands")
    with closing(sqlite_store(log, "truncate")) as store:
        store.append("w", notes(LENGTH + 1), expected=0, claim=claim())
    (found,) = found_in(log, anchors)
    assert (found.stream, found.version, found.kind) == ("w", LENGTH, "anchor")


def test_removed_stream_leaves_a_gap_in_the_positions(log: Path) -> None:
    """If later events exist, `verify` finds the removed stream without an outside hash."""
    tamper(log, "DELETE FROM events WHERE stream = 'w'")
    (found,) = found_in(log)
    assert found.kind == "missing"


def test_event_of_an_unknown_type_is_found(log: Path) -> None:
    """`verify` reports the event and does not change the database."""
    before = log.read_bytes()
    with closing(sqlite_store(log, read_only=True, schema=Schema({}))) as store:
        kinds = {(found.stream, found.kind) for found in store.verify()}
    assert kinds == {("w", "undecodable"), ("x", "undecodable")}
    assert log.read_bytes() == before


def everything(path: Path) -> list[object]:
    """Return the events that a reader gets."""
    with closing(sqlite_store(path, read_only=True)) as store:
        return [(event.position, event.hash, event.body) for event in store.read_all()]


def _or_error(look: Callable[[Path], list[object]], path: Path) -> object:
    try:
        return look(path)
    except EventStoreError as error:
        return error.code


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(4))
def test_flipped_byte_is_found_or_changes_nothing(log: Path, tmp_path: Path, seed: int) -> None:
    """The verification finds every flipped byte that changes what a reader gets."""
    honest, chance = everything(log), random.Random(seed)
    copy, told = tmp_path / "flipped.db", 0
    for _ in range(400):
        shutil.copyfile(log, copy)
        content = bytearray(copy.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        copy.write_bytes(content)
        got = _or_error(everything, copy)
        findings = _or_error(lambda path: list(found_in(path)), copy)
        told += bool(findings)
        assert findings or got == honest
    assert told > 10


def test_flipped_byte_in_a_long_text_is_found(database: Path) -> None:
    """`verify` finds a flipped byte in the long texts, which are most of a log."""
    with closing(sqlite_store(database, "truncate")) as store:
        store.append("w", [note("abc" * 20_000)], expected=0, claim=claim())
    content = database.read_bytes()
    database.write_bytes(content.replace(b"abcabc", b"abcabd", 1))
    first = found_in(database)[0]
    assert (first.version, first.kind) == (1, "altered")
