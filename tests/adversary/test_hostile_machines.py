"""Hostile rows after a machine's log stop no command and open no gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from lifecycle.payload.event_types import MACHINE_TYPES
from tests.adversary import raw
from tests.adversary.hostile_events import Hostile
from tests.adversary.table import Table
from tests.cli.support import Place, tree
from tests.rounds import rounds
from tests.server import Server

pytestmark = pytest.mark.forged

_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIX3iC0pV0p0rL5eG5f4mJj6ZyY0mF5e0k1m6vC2m3aX"
READS = (
    ("machine", "get", "wf"),
    ("machine", "list"),
    ("machine", "rehydrate", "wf"),
    ("machine", "drift", "wf"),
    ("events", "--machine", "wf"),
    ("audit", "sql", "SELECT count(*) FROM v_events"),
    ("replay", "--machine", "wf"),
    ("fsck",),
)
#: Event types of the hostile rows. Cancellations are excluded, because a cancelled machine would
#: ignore the other rows.
TYPES = {name: type_ for name, type_ in MACHINE_TYPES.items() if name != "machine.cancelled"}
#: The phase before the first gate. Only a person opens this gate, and all other gates come later,
#: so a hostile row must never move the machine out of this phase.
BEFORE_A_PERSON = "REQUIREMENTS"


def _attacked(place: Place, table: Table, seed: int, number: int) -> None:
    signers = place.path.parent / "signers"
    signers.write_text(f"ada@example.org {_KEY}\n")
    policy = ("--consent", "signature", "--signers", str(signers))
    place.done("machine", "init", "wf", "--type", "dotagent", *policy)
    definition = place.done("machine", "describe", "wf")
    beside = {k: v for k, v in tree(place.path.parent).items() if not k.startswith("root")}
    hostile = Hostile(seed, TYPES)
    table.add(hostile.events(table.last("machine-wf"), number))
    for words in (*READS, ("machine", "checkpoint", "wf", "--summary", "on we go"), READS[0]):
        answer = place.json(*words)
        # `audit sql` reads tables that contain only workflows. This root has no workflow, so the
        # command exits with code 3.
        allowed = (
            (0, 7) if words[0] == "fsck" or "drift" in words else (3,) if "sql" in words else (0,)
        )
        assert answer.code in allowed, (words, answer.code, (answer.out + answer.err)[-3000:])
    assert place.done("machine", "get", "wf", "--query", "current_phase") == BEFORE_A_PERSON
    assert place.done("machine", "describe", "wf") == definition
    now = {k: v for k, v in tree(place.path.parent).items() if not k.startswith(("root", "state"))}
    assert now == {k: v for k, v in beside.items() if not k.startswith("state")}


def _root(tmp_path: Path) -> Place:
    root = tmp_path / "root"
    root.mkdir()
    return Place(root)


@pytest.mark.parametrize("seed", range(2))
def test_short_hostile_machine_log_opens_no_gate(tmp_path: Path, seed: int) -> None:
    """The machine stays in its first phase after a hundred hostile rows."""
    place = _root(tmp_path)
    _attacked(place, Table(place.path / ".wfctl/events.db"), seed, 100)


@pytest.mark.parametrize("seed", rounds(range(100, 105), few=1))
def test_long_hostile_machine_log_opens_no_gate(tmp_path: Path, seed: int) -> None:
    """The machine stays in its first phase after four hundred hostile rows."""
    place = _root(tmp_path)
    _attacked(place, Table(place.path / ".wfctl/events.db"), seed, 400)


@pytest.mark.parametrize(
    "change",
    [
        {"task": "../x y", "changes": {"status": "running"}},
        {"task": "T01", "changes": {"status": ["running"]}},
        {"task": "T01", "changes": {"status": "running", "id": "../x y"}},
    ],
    ids=["an invalid id", "an unknown status", "another id inside"],
)
def test_row_with_an_invalid_task_is_ignored(tmp_path: Path, change: raw.Body) -> None:
    """`machine rehydrate` works, and `machine get` warns about the invalid version."""
    place = _root(tmp_path)
    place.done("machine", "init", "wf", "--type", "dotagent", "--consent", "trust")
    table = Table(place.path / ".wfctl/events.db")
    last = table.last("machine-wf")
    data = {"earlier": {}, "reason": None, **change}
    named = {"event_id": "forged", "command_id": "forged", "schema_version": 2}
    body = {**last, **named, "type": "machine.task_changed", "data": data, "version": 2}
    body |= {"prev_hash": body.pop("hash")}
    table.add([(body, raw.spelled(body))])
    assert place.json("machine", "rehydrate", "wf").code == 0
    said = place.json("machine", "get", "wf").envelope["_meta"]["warnings"]
    assert sum("version 2 " in one for one in said) == 1
    found = place.json("fsck").data["findings"]
    assert [(one["kind"], one["version"]) for one in found if one["kind"] == "set_aside"] == [
        ("set_aside", 2)
    ]


def test_hostile_machine_log_on_a_server_opens_no_gate(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine stays in its first phase after a database user inserted hostile rows."""
    url = server.log()
    monkeypatch.setenv("WFCTL_DATABASE_URL", url)
    _attacked(_root(tmp_path), Table(url), 7, 100)
