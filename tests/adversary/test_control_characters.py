"""wfctl writes no control character, even if a job, a plan, a note or an agent supplies them."""

from __future__ import annotations

import json
import re

import pytest

from extensions.exports.formats import FORMATS
from tests.cli.support import Place, call, write_plan
from tests.exports.support import text_of

#: Control codes that clear the screen, set the window title, ring the bell, set a colour, and start
#: a one-byte sequence.
STEERS = "a\x1b[2Jb\x1b]0;x\x07c\x1b[31md\x9b1me\x7ff\rg"
#: A name without the carriage return, because a name must be one line.
NAME = STEERS.replace("\r", "")
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: The control characters in the octal notation of printf, which the job prints as its last output.
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
    """Return a workflow with control characters in its plan, notes, output, errors and proposal."""
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


def test_job_output_contains_control_characters(steered: Place) -> None:
    """The recorded error has control characters, so the other tests are meaningful."""
    (failed,) = steered.done("events", "--type", "stage.failed")
    assert "\x1b[2J" in failed["data"]["error"]


@pytest.mark.parametrize("words", SURFACES, ids=" ".join)
def test_printed_output_has_no_control_characters(steered: Place, words: list[str]) -> None:
    """wfctl removes control characters from output to a pipe and to a terminal."""
    answer = steered.call(*words)
    assert answer.out
    assert CONTROL.findall((answer.out + answer.err).replace("\r\n", "\n")) == []


@pytest.mark.parametrize("format_", EXPORTS)
def test_exported_files_have_no_control_characters(steered: Place, format_: str) -> None:
    """Exported text has no control characters; exported events have JSON escapes."""
    assert CONTROL.findall(text_of(steered, format_)) == []


@pytest.mark.parametrize("name", ["progress.log", "workflow-state.json"])
def test_files_in_the_root_have_no_control_characters(steered: Place, name: str) -> None:
    """`progress.log` and `workflow-state.json` contain no raw control character."""
    assert CONTROL.findall((steered.path / name).read_text("utf-8")) == []


def test_json_round_trip_preserves_values(steered: Place) -> None:
    """JSON output escapes control characters, and reading it gives the original values."""
    assert steered.done("status")["purpose"] == STEERS
    assert STEERS in steered.notes()


def test_error_messages_have_no_control_characters(steered: Place) -> None:
    """An error message that repeats an argument cleans it first."""
    for words in (["show", STEERS], ["-o", "json", "show", STEERS]):
        answer = steered.call(*words)
        assert answer.code != 0
        assert CONTROL.findall(answer.out + answer.err) == []
