"""wfctl can fold, project, show and export every event that its command line accepts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from lifecycle.payload.models import Payload
from lifecycle.words.limits import MAX_TEXT
from tests.adversary.hostile_events import anything
from tests.adversary.test_hostile_logs import FORMS, READS
from tests.amendments.support import Place
from tests.history.test_every_shape import DEEDS
from tests.rounds import rounds

#: Exit codes of a command that refuses its input. Code 1 is not among them: it means another error.
_REFUSED = (2, 3, 4, 5, 6)
_DECIDES = ("amendment.approved", "drift.adopted", "drift.reverted")


def _appended(place: Place, type_: str, data: Any) -> bool:
    """Append an event with the command line, and return whether it was accepted."""
    path = place.path.parent / "data.json"
    path.write_text(json.dumps(data), "utf-8")
    answer = place.json("append", type_, "--data", f"@{path}")
    assert answer.code in (0, *_REFUSED), (type_, data, (answer.out + answer.err)[-3000:])
    return answer.code == 0


def _bent(chance: random.Random, data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with random values in some fields, of the right type or not."""
    found = dict(data)
    for name in chance.sample(list(found), chance.randrange(1, len(found) + 1)):
        value = anything(chance, 3)
        if isinstance(found[name], str) and chance.random() < 0.7:
            value = chance.choice([found[name], value if isinstance(value, str) else "\0\n\x1b[2J"])
        found[name] = value
    return found


def _lived(place: Place, seed: int) -> int:
    """Append a history with hostile events, and return the number that was accepted."""
    chance, accepted = random.Random(seed), 0
    for deed in DEEDS:
        if not isinstance(deed, Payload) or deed.type in _DECIDES:
            continue
        data = deed.as_json()
        done = any(data and _appended(place, deed.type, _bent(chance, data)) for _ in range(3))
        accepted += done
        if not done:
            _appended(place, deed.type, data)
    return accepted


def _all_is_well(place: Place) -> None:
    """Check that wfctl ignored no event and that every command that reads succeeds."""
    assert place.json("fsck").data["findings"] == []
    folder = place.path.parent / "exports"
    folder.mkdir()
    exports = [("export", form, str(folder / form)) for form in FORMS]
    rebuilt = (("db", "project", "--rebuild"), ("replay", "--rebuild"), ("replay", "--check"))
    for words in (*READS, *exports, *rebuilt, ("note", "on we go")):
        answer = place.call(*words)
        # Random events may record outputs that nobody approved, which `audit` reports with code 7.
        codes = (0, 7) if words[0] == "audit" else (0,)
        assert answer.code in codes, (words, answer.code, (answer.out + answer.err)[-3000:])


@pytest.mark.parametrize("seed", range(2))
def test_accepted_events_are_readable_by_every_command(trusted: Place, seed: int) -> None:
    """`append` refuses control characters, huge numbers and unknown names or folds them."""
    assert _lived(trusted, seed)
    _all_is_well(trusted)


@pytest.mark.parametrize("seed", rounds(range(100, 120), few=4))
def test_accepted_events_of_many_seeds_are_readable_by_every_command(
    trusted: Place, seed: int
) -> None:
    """Every command can read the events that `append` accepts, for many random seeds."""
    _lived(trusted, seed)
    _all_is_well(trusted)


@pytest.mark.parametrize(
    "data",
    [{"detail": "x" * (MAX_TEXT + 1)}, {"detail": "\0" * (MAX_TEXT + 1)}],
    ids=["a text", "control characters"],
)
def test_text_above_the_size_limit_is_refused(trusted: Place, tmp_path: Path, data: Any) -> None:
    """`append` exits with code 2, names the limit, and records nothing."""
    before = trusted.version()
    path = tmp_path / "data.json"
    path.write_text(json.dumps({"stage": "stage-1", **data}), "utf-8")
    answer = trusted.json("append", "stage.prepared", "--data", f"@{path}")
    assert (answer.code, answer.error["code"]) == (2, "invalid_payload")
    assert f"{MAX_TEXT:,}" in answer.error["message"]
    assert trusted.version() == before
