"""A hundred attempts to bypass the policy `signature` fail, and the audit lists each."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.forgery import statement
from tests.amendments.support import LONGER, Keys, Place, sign
from tests.amendments.test_forged_rows import FORGERIES
from tests.cli.terminal import answered
from tests.rounds import rounds

pytestmark = [pytest.mark.slow, pytest.mark.forged]

TRIES = 100
Try = Callable[[Place, Keys, Path], None]


def _row(place: Place, keys: Keys, folder: Path) -> None:
    forge = FORGERIES[len(place.bypasses()) % len(FORGERIES)]
    place.write_row("amendment.approved", forge(place, keys, folder))


def _edited_row(place: Place, keys: Keys, folder: Path) -> None:
    place.write_row("stage.skipped", {"stage": "stage-3", "amendment": "amend-1"})


def _plumbing(place: Place, keys: Keys, folder: Path) -> None:
    data = json.dumps({"amendment": "amend-1", "approved_by": "user"})
    answer = place.call("--actor", "user:pi", "append", "amendment.approved", "--data", data)
    assert answer.code == 6, answer


def _without_key(place: Place, keys: Keys, folder: Path) -> None:
    assert place.call("--actor", "user:pi", "amend", "approve", "amend-1").code == 6


def _agents_key(place: Place, keys: Keys, folder: Path) -> None:
    line = ("--actor", "agent:x", "amend", "approve", "amend-1", "--key", str(keys.stranger))
    assert place.call(*line).code == 6


def _strangers_signature(place: Place, keys: Keys, folder: Path) -> None:
    made = sign(statement(place), keys.stranger, folder)
    assert place.call("amend", "approve", "amend-1", "--signature", str(made)).code == 6


def _own_terminal(place: Place, keys: Keys, folder: Path) -> None:
    line = ("--root", str(place.path), "--actor", "user:pi", "amend", "approve", "amend-1")
    assert answered("y\n", *line)[0] == 6


#: The kinds of attempts, each with the number of times that it occurs among ten attempts.
TRIED: tuple[tuple[Try, int], ...] = (
    (_row, 4),
    (_edited_row, 1),
    (_plumbing, 1),
    (_without_key, 1),
    (_agents_key, 1),
    (_strangers_signature, 1),
    (_own_terminal, 1),
)


def stages(place: Place) -> Any:
    """Return the version and the stages of the plan."""
    version, _, found = place.definition()
    return version, found


@pytest.mark.parametrize("seed", rounds(range(5), 1))
def test_hundred_bypass_attempts_have_no_effect(
    signed: Place, keys: Keys, tmp_path: Path, seed: int
) -> None:
    """The attempts do not change the plan, and the audit lists each attempt."""
    signed.finish("stage-1")
    signed.propose(*LONGER)
    before = stages(signed)
    tried = [one for one, often in TRIED for _ in range(often * TRIES // 10)]
    random.Random(seed).shuffle(tried)
    told = 0
    for number, one in enumerate(tried):
        folder = tmp_path / f"try-{number}"
        folder.mkdir()
        one(signed, keys, folder)
        told, known = len(signed.bypasses()), told
        assert told > known, one
        assert stages(signed) == before, one
    assert told >= TRIES
