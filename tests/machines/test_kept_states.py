"""wfctl stores the state of a machine next to its log, and ignores invalid stored states."""

from __future__ import annotations

from pathlib import Path

import pytest

from extensions.machines.rules.evolve import REDUCER
from service.reading.stream_log import Seal, get_or_create_seal
from tests.adversary import raw
from tests.machines.place import MachinePlace

_STREAM = "machine-m-1"
_THEIRS = Seal(b"t" * 32)


@pytest.fixture
def begun(place: MachinePlace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MachinePlace:
    """Return a machine of six events, whose state is stored after every write."""
    monkeypatch.setattr("service.reading.stream_log.FOLD_EVERY", 1)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-of-mine"))
    place.init("m-1")
    for number in range(5):
        place.done("update", "m-1", f"notes.n{number}={number}")
    return place


def _kept(place: MachinePlace) -> tuple[str, int, bytes]:
    with raw.connected(place.path) as database:
        ((name, version, state),) = database.execute(
            "SELECT reducer, version, state FROM folds"
        ).fetchall()
    return name, version, state


def _n4(place: MachinePlace) -> object:
    return place.done("get", "m-1", "--query", "notes.n4")


def _forged(place: MachinePlace, seal: Seal) -> bytes:
    """Return the stored state with a changed value, sealed with the given seal."""
    mine = get_or_create_seal()
    assert mine is not None
    _, version, state = _kept(place)
    purpose = f"machine {REDUCER} never-signed {version} {_STREAM}"
    content = mine.opened(state, purpose)
    assert content is not None
    assert b'"n4":4' in content
    return seal.sealed(content.replace(b'"n4":4', b'"n4":99'), purpose)


def _put(place: MachinePlace, state: bytes) -> None:
    with raw.connected(place.path) as database:
        database.execute("UPDATE folds SET state = ?", (state,))


def test_newest_state_is_stored(begun: MachinePlace) -> None:
    """wfctl stores the state after the last event, and `replay --check` accepts it."""
    name, version, _ = _kept(begun)
    assert (name.partition(" ")[0], version) == ("machine", 6)
    assert begun.wfctl("replay", "--check").data["findings"] == []


def test_state_with_a_valid_seal_is_used_and_checked(begun: MachinePlace) -> None:
    """wfctl uses a changed state with a valid seal, but `replay --check` reports the change."""
    mine = get_or_create_seal()
    assert mine is not None
    _put(begun, _forged(begun, mine))
    assert _n4(begun) == 99
    answer = begun.wfctl("replay", "--check")
    assert answer.code != 0
    assert f"stored fold of {_STREAM}" in answer.data["findings"][0]["file"]


def test_a_state_of_another_login_is_not_mine(begun: MachinePlace) -> None:
    """wfctl ignores a state without the user's own seal, and computes it from the events."""
    for state in (_forged(begun, _THEIRS), b"\0" * 64):
        _put(begun, state)
        assert _n4(begun) == 4


def test_deleted_last_event_is_detected_despite_a_stored_state(begun: MachinePlace) -> None:
    """If the event on which the stored state is based is gone, `machine get` fails."""
    with raw.connected(begun.path) as database:
        database.execute("DROP TRIGGER IF EXISTS events_no_delete")
        for (name,) in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall():
            database.execute(f'DROP TRIGGER "{name}"')
        database.execute("DELETE FROM events WHERE version = 6")
    assert begun.call("get", "m-1").code != 0
