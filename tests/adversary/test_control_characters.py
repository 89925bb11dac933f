"""No control character leaves wfctl, whatever a job, a plan, a note or an agent put in."""

from __future__ import annotations

import json
import re

import pytest

from projections.exports.formats import FORMATS
from tests.cli.support import Place, call, write_plan
from tests.exports.support import text_of

#: Clears a screen, sets the title of a window, rings, colours, and begins a sequence with one byte.
STEERS = "a\x1b[2Jb\x1b]0;x\x07c\x1b[31md\x9b1me\x7ff\rg"
#: A name is one line.
NAME = STEERS.replace("\r", "")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: What the job writes last, in the octal of printf.
_OCTAL = "".join(f"\\{byte:03o}" for byte in NAME.encode())

SURFACES = (
    ["status"],
    ["log"],
    ["events"],
    ["why", "stage-1"],
    ["show", "stage-1"],
    ["inbox"],
    ["list"],
    ["report", "-"],
    ["amend", "list"],
    ["amend", "show", "amend-1"],
    ["-o", "json", "status"],
    ["-o", "json", "show", "stage-1"],
    ["-o", "jsonl", "events"],
    ["-o", "csv", "audit", "amendments"],
    ["-o", "json", "audit", "amendments"],
)
EXPORTS = sorted(FORMATS.keys() - {"events"})


@pytest.fixture(scope="module")
def steered(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workflow with such words in its plan, a note, a job's output, an error, an amendment."""
    folder = tmp_path_factory.mktemp("steered")
    place = Place(folder / "root")
    place.path.mkdir()
    parameters = {"command": f"printf '{_OCTAL}\\n' >&2; exit 3", "own": STEERS}
    stage = {"id": "stage-1", "name": NAME, "parameters": parameters, "success_criteria": STEERS}
    plan = {"workflow_id": "steered-2026-03-31", "purpose": STEERS, "stages": [stage]}
    begun = call(
        "--root", str(place.path), "init", str(write_plan(folder, plan)), "--consent", "trust"
    )
    assert begun.code == 0, begun
    place.done("note", STEERS)
    place.call("run")
    change = ("--stage", "stage-1", "--set", f"parameters.n={json.dumps(STEERS)}")
    place.done("amend", "propose", *change, "--reason", STEERS, "--description", STEERS)
    return place


def test_the_job_did_write_it(steered: Place) -> None:
    """Else nothing of its output would be cleaned."""
    (failed,) = steered.done("events", "--type", "stage.failed")
    assert "\x1b[2J" in failed["data"]["error"]


@pytest.mark.parametrize("words", SURFACES, ids=" ".join)
def test_what_is_printed_has_no_control_character(steered: Place, words: list[str]) -> None:
    """Not at a terminal alone: what is piped is looked at too, and by `less -r`."""
    answer = steered.call(*words)
    assert answer.out
    assert CONTROL.findall((answer.out + answer.err).replace("\r\n", "\n")) == []


@pytest.mark.parametrize("format_", EXPORTS)
def test_what_is_exported_has_no_control_character(steered: Place, format_: str) -> None:
    """The events alone are as they were hashed, their control characters spelled by JSON."""
    assert CONTROL.findall(text_of(steered, format_)) == []


@pytest.mark.parametrize("name", ["progress.log", "workflow-state.json"])
def test_what_is_written_has_no_control_character(steered: Place, name: str) -> None:
    """The files in the root."""
    assert CONTROL.findall((steered.path / name).read_text("utf-8")) == []


def test_json_keeps_the_truth(steered: Place) -> None:
    """Spelled, and read as what it is."""
    assert steered.done("status")["purpose"] == STEERS
    assert STEERS in steered.notes()


def test_a_failure_is_told_without_control_characters(steered: Place) -> None:
    """Words of a caller are words of others too."""
    for words in (["show", STEERS], ["-o", "json", "show", STEERS]):
        answer = steered.call(*words)
        assert answer.code != 0
        assert CONTROL.findall(answer.out + answer.err) == []
