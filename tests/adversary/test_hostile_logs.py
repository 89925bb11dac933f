"""Hostile rows after a log stop no command, change no definition and remove no file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adversary import raw
from tests.adversary.hostile_events import Hostile
from tests.adversary.table import Table
from tests.amendments.support import LONGER, Keys, Place, make
from tests.cli.support import Answer, tree
from tests.cli.support import Place as Root
from tests.rounds import rounds
from tests.server import Server

pytestmark = pytest.mark.forged

READS = (
    ("status",),
    ("show", "stage-1"),
    ("log",),
    ("events",),
    ("replay",),
    ("fsck",),
    ("why",),
    ("session", "show"),
    ("blame", "stage-1.parameters.n"),
    ("audit", "times"),
    ("audit", "amendments"),
    ("audit", "bypasses"),
    ("audit", "sql", "SELECT count(*) FROM v_events"),
)
FORMS = ("report", "ro-crate", "events", "svg", "timeline", "mermaid")


def _definitions(place: Place) -> Any:
    """Return the values that only an amendment may change."""
    names = ("id", "name", "depends_on", "parameters", "success_criteria", "backend")
    document = place.document()
    stages = [{n: stage.get(n) for n in names} for stage in document["stages"]]
    return document["version"], stages


def _went_on(answer: Answer, words: tuple[str, ...]) -> None:
    """Check that the command succeeded, or reported findings if it is a check."""
    allowed = (0, 7) if words in ((("fsck",)), (("audit", "bypasses"))) else (0,)
    assert answer.code in allowed, (words, answer.code, (answer.out + answer.err)[-3000:])


def _outside(place: Root) -> dict[str, str]:
    """Return the files outside the root, which no row may change."""
    ours = ("root", "exports", "state")
    return {k: v for k, v in tree(place.path.parent).items() if not k.startswith(ours)}


def _attacked(place: Place, table: Table, seed: int, number: int) -> None:
    before, outside = _definitions(place), _outside(place)
    table.add(Hostile(seed).events(table.last("workflow-melt-2026-03-31"), number))
    folder = place.path.parent / "exports"
    folder.mkdir(exist_ok=True)
    for words in (*READS, *(("export", form, str(folder / form)) for form in FORMS)):
        _went_on(place.call(*words), words)
    _went_on(place.call("note", "on we go"), ("note",))
    _went_on(place.call("db", "project", "--rebuild"), ("db", "project"))
    _went_on(place.call("replay", "--rebuild"), ("replay",))
    assert _definitions(place) == before
    assert _outside(place) == outside


def _lived(place: Place, keys: Keys) -> Place:
    place.finish("stage-1")
    place.propose(*LONGER)
    place.approve("amend-1", "--key", str(keys.allowed))
    return place


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_short_hostile_log_stops_no_command(signed: Place, keys: Keys, seed: int) -> None:
    """Every command works on a log that ends with a hundred hostile rows."""
    _attacked(_lived(signed, keys), in_file(signed), seed, 100)


@pytest.mark.parametrize("seed", rounds(range(100, 115), few=4))
def test_long_hostile_log_stops_no_command(signed: Place, keys: Keys, seed: int) -> None:
    """Every command works on a log that ends with four hundred hostile rows."""
    _attacked(_lived(signed, keys), in_file(signed), seed, 400)


def _on_server(
    tmp_path: Path, server: Server, keys: Keys, patch: pytest.MonkeyPatch
) -> tuple[Place, Table]:
    url = server.log()
    patch.setenv("WFCTL_DATABASE_URL", url)
    policy = ("--consent", "signature", "--signers", str(keys.signers))
    return _lived(make(tmp_path / "root", *policy), keys), Table(url)


@pytest.mark.long
def test_short_hostile_log_on_a_server_stops_no_command(
    tmp_path: Path, server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command works after a PostgreSQL user inserted a hundred hostile rows."""
    _attacked(*_on_server(tmp_path, server, keys, monkeypatch), 3, 100)


@pytest.mark.parametrize("seed", rounds(range(115, 120), few=1))
def test_long_hostile_log_on_a_server_stops_no_command(
    tmp_path: Path, server: Server, keys: Keys, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Every command works after a PostgreSQL user inserted four hundred hostile rows."""
    _attacked(*_on_server(tmp_path, server, keys, monkeypatch), seed, 400)


def in_file(place: Root) -> Table:
    """Return the events table of a root's own database."""
    return Table(place.path / ".wfctl/events.db")


def test_append_refuses_values_that_cannot_be_folded(trusted: Place, tmp_path: Path) -> None:
    """`append` exits with code 2 for invalid numbers and names, and records nothing."""
    before = trusted.version()
    for type_, data in (
        ("stage.retried", {"stage": "stage-1", "fix": "f", "retry": -1}),
        ("stage.failed", {"stage": "stage-1", "error": "e", "exit_code": 2**60}),
        ("note.logged", {"text": "t", "after": 2**63}),
        ("note.logged", {"text": "t", "stage": "stage 77"}),
    ):
        answer = trusted.json("append", type_, "--data", raw.spelled(data))
        assert (answer.code, answer.error["code"]) == (2, "invalid_payload")
    assert trusted.version() == before
