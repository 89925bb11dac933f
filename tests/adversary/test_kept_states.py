"""A kept state counts only under the seal of the login that reads it, for what it is of."""

from __future__ import annotations

from pathlib import Path

import pytest

from lifecycle.fold.evolve import REDUCER
from service.reading import stream_log
from service.reading.stream_log import Seal, own_seal
from tests.adversary import raw
from tests.amendments.support import Place
from tests.amendments.test_signature import folded

_STREAM = "workflow-melt-2026-03-31"
_THEIRS = Seal(b"t" * 32)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seal:
    """Make the seal of the login that reads."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-of-mine"))
    found = own_seal()
    assert found is not None
    return found


def _forged(place: Place) -> tuple[int, bytes]:
    """Return a version, and a state at it that no event ever made, behind the hash of its event."""
    state = folded(place)
    state.stages["stage-1"].parameters = {"command": "true", "n": 99}
    head = raw.bodies(place.path)[-1]["hash"]
    return state.head, head.encode() + stream_log.to_bytes(state)


def _purpose(version: int, stream: str = _STREAM) -> str:
    return f"{stream_log.NAME} {REDUCER} never-signed {version} {stream}"


def _kept(place: Place, name: str, version: int, content: bytes) -> None:
    row = (_STREAM, f"{stream_log.NAME} {name}", REDUCER, version, content)
    with raw.connected(place.path) as database:
        database.execute("DELETE FROM folds")
        database.execute("INSERT INTO folds VALUES (?, ?, ?, ?, ?)", row)


def _n(place: Place) -> int:
    found: int = place.done("show", "stage-1")["parameters"]["n"]
    return found


@pytest.mark.parametrize(
    "whose", ["nobody's", "another's", "for another stream", "of another version"]
)
def test_a_state_under_no_seal_of_mine_for_it_is_not_believed(
    trusted: Place, mine: Seal, whose: str
) -> None:
    """Given it under my name in the database, then the events alone count."""
    version, content = _forged(trusted)
    sealed = {
        "nobody's": b"\0" * 32 + content,
        "another's": _THEIRS.sealed(content, _purpose(version)),
        "for another stream": mine.sealed(content, _purpose(version, "workflow-other")),
        "of another version": mine.sealed(content, _purpose(version + 1)),
    }
    _kept(trusted, mine.name, version, sealed[whose])
    assert _n(trusted) == 1


def test_a_state_of_another_login_is_not_mine(trusted: Place, mine: Seal) -> None:
    """Under its own name and seal it counts for that login alone."""
    version, content = _forged(trusted)
    _kept(trusted, _THEIRS.name, version, _THEIRS.sealed(content, _purpose(version)))
    assert _n(trusted) == 1


def test_a_state_under_my_seal_is_taken(trusted: Place, mine: Seal) -> None:
    """Or the tests above would show nothing."""
    version, content = _forged(trusted)
    _kept(trusted, mine.name, version, mine.sealed(content, _purpose(version)))
    assert _n(trusted) == 99
