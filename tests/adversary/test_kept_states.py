"""wfctl uses a cached state only if the reading user sealed it for the same stream."""

from __future__ import annotations

from pathlib import Path

import pytest

from lifecycle.fold.evolve import REDUCER
from service.reading import stream_log
from service.reading.stream_log import Seal, get_or_create_seal
from tests.adversary import raw
from tests.amendments.support import Place
from tests.amendments.test_signature import folded

_STREAM = "workflow-melt-2026-03-31"
_THEIRS = Seal(b"t" * 32)


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Seal:
    """Create the seal (key) of the user who reads the cached states."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state-of-mine"))
    found = get_or_create_seal()
    assert found is not None
    return found


def _forged(place: Place) -> tuple[int, bytes]:
    """Return the current version, and a forged cached state for this version."""
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
def test_cached_state_without_a_valid_seal_is_ignored(
    trusted: Place, mine: Seal, whose: str
) -> None:
    """The reader folds the events if the seal is missing, foreign, or for another state."""
    version, content = _forged(trusted)
    sealed = {
        "nobody's": b"\0" * 32 + content,
        "another's": _THEIRS.sealed(content, _purpose(version)),
        "for another stream": mine.sealed(content, _purpose(version, "workflow-other")),
        "of another version": mine.sealed(content, _purpose(version + 1)),
    }
    _kept(trusted, mine.name, version, sealed[whose])
    assert _n(trusted) == 1


def test_cached_state_of_another_user_is_ignored(trusted: Place, mine: Seal) -> None:
    """wfctl ignores a forged state that another user sealed with a key of their own."""
    version, content = _forged(trusted)
    _kept(trusted, _THEIRS.name, version, _THEIRS.sealed(content, _purpose(version)))
    assert _n(trusted) == 1


def test_cached_state_with_own_seal_is_used(trusted: Place, mine: Seal) -> None:
    """wfctl uses a state with a valid seal, so the tests above reject only the seal."""
    version, content = _forged(trusted)
    _kept(trusted, mine.name, version, mine.sealed(content, _purpose(version)))
    assert _n(trusted) == 99
