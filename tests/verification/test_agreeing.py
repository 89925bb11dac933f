"""A person can agree to audit entries; status, report and audit show the name and reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import Place
from tests.verification.test_came_about import script
from tests.verification.test_deeds import retried, with_script

pytestmark = pytest.mark.slow

REASON = "the unit was wrong"


@pytest.fixture
def corrected(tmp_path: Path) -> Place:
    """Create a stage that failed because of its script and completed after a correction."""
    place = with_script(tmp_path / "w", "exit 3\n")
    assert place.json("run").code == 6
    script(place).write_text("echo 0.5 > out.txt\n")
    return retried(place)


def entries(place: Place, code: int) -> list[dict[str, object]]:
    """Return the audit entries about the corrected script, after checking the exit code."""
    answer = place.json("audit", "bypasses")
    assert answer.code == code, answer
    return [one for one in answer.data if one["kind"] == "script"]


def agree(place: Place) -> None:
    """Agree to all waiting audit entries."""
    ids = [str(one["entry"]) for one in entries(place, 7) if one["agreed"] is None]
    place.done("audit", "agree", *ids, "--reason", REASON, "--actor", "user:pi")


def test_agreement_to_a_corrected_script_is_shown_everywhere(corrected: Place) -> None:
    """After the agreement, the audit exits with 0, and all views show the reason."""
    agree(corrected)
    assert all(REASON in str(one["why"]) for one in entries(corrected, 0))
    told = [one for one in corrected.done("status")["account"] if one["kind"] == "script"]
    assert told
    assert all(REASON in one["agreed"] for one in told)
    assert REASON in corrected.call("report", "-").out
    assert f": {REASON}" in corrected.log()


def test_another_correction_needs_another_agreement(corrected: Place) -> None:
    """An agreement covers the script of one attempt, so the audit reports a later change."""
    agree(corrected)
    script(corrected).write_text("echo 0.7 > out.txt\n")
    waiting = [one for one in entries(corrected, 7) if one["agreed"] is None]
    assert waiting


def test_agreement_requires_a_waiting_entry_and_a_reason(corrected: Place) -> None:
    """`audit agree` refuses an unknown entry, an agreed entry and a missing reason."""
    before = corrected.version()
    entry = str(entries(corrected, 7)[0]["entry"])
    assert corrected.json("audit", "agree", "000", "--reason", "so").code == 3
    assert corrected.json("audit", "agree", entry).code == 2
    assert corrected.version() == before
    corrected.done("audit", "agree", entry[:6], "--reason", REASON, "--actor", "user:pi")
    assert corrected.json("audit", "agree", entry, "--reason", REASON).code == 3


def test_entry_named_twice_is_agreed_to_once(corrected: Place) -> None:
    """An id and its short form name the same entry, so one event is recorded."""
    entry = str(entries(corrected, 7)[0]["entry"])
    before = corrected.types().count("audit.agreed")
    corrected.done("audit", "agree", entry, entry, entry[:6], "--reason", REASON)
    assert corrected.types().count("audit.agreed") == before + 1


def test_raw_event_cannot_replace_an_agreement(corrected: Place) -> None:
    """`append` refuses the event and names `audit agree`; the audit still lists the entry."""
    entry = entries(corrected, 7)[0]
    data = {"entry": entry["entry"], "kind": "script", "subject": "s", "text": "t", "reason": "r"}
    answer = corrected.json("append", "audit.agreed", "--data", json.dumps(data))
    assert answer.code == 6
    assert "wfctl audit agree" in answer.err + answer.out
    assert entries(corrected, 7)


def test_agreement_by_an_agent_leaves_the_entry_waiting(corrected: Place) -> None:
    """The policy `trust` records the agent's agreement, but a person must still agree."""
    waiting = [one["entry"] for one in entries(corrected, 7) if one["agreed"] is None]
    corrected.done("audit", "agree", str(waiting[0]), "--reason", REASON, "--actor", "agent:x")
    still = [one["entry"] for one in entries(corrected, 7) if one["agreed"] is None]
    assert still == waiting
    warnings = corrected.done("status")["consent"]["warnings"]
    assert any("changed since" in text for text in warnings)
