"""Environment variables give a command the paths of its inputs and its partner's results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import Place
from tests.sweeps.support import begun, sweep


@pytest.mark.slow
def test_variables_name_the_root_and_the_inputs(tmp_path: Path) -> None:
    """`command` sees paths of the job's copy, and `verify` those of the workflow folder."""
    stage = {
        "id": "stage-1",
        "name": "One",
        "inputs": ["data/a b.txt", "stage-1/own.txt"],
        "outputs": ["stage-1/out.txt"],
        "parameters": {
            "command": 'cat "$WFCTL_INPUT_1" "$WFCTL_INPUT_2" "$WFCTL_ROOT/data/a b.txt" > out.txt;'
            ' echo "${WFCTL_INPUT_3-none} ${WFCTL_LIKE_FOLDER-none}" >> out.txt;'
            " cmp own.txt $WFCTL_INPUT_2 && cmp ../stage-1/own.txt $WFCTL_ROOT/stage-1/own.txt",
            "verify": 'cmp "$WFCTL_INPUT_1" "data/a b.txt" && [ "$WFCTL_ROOT" = "$PWD" ]',
        },
    }
    place = begun(tmp_path, stage)
    for path, text in (("data/a b.txt", "A\n"), ("stage-1/own.txt", "B\n")):
        (place.path / path).parent.mkdir(exist_ok=True)
        (place.path / path).write_text(text)
    place.done("run")
    assert (place.path / "stage-1/out.txt").read_text() == "A\nB\nA\nnone none\n"


def like(**parameters: Any) -> dict[str, Any]:
    """Return a follower stage whose tasks read the results of their partner tasks."""
    return {
        "id": "stage-2",
        "name": "Go on",
        "depends_on": ["stage-1"],
        "inputs": ["factor.txt", "stage-1/tasks.csv"],
        "outputs": ["stage-2/tasks.csv"],
        "parameters": {
            "command": "cat ${WFCTL_LIKE_FOLDER:?}/e.json $WFCTL_INPUT_1 > both.txt",
            "task_verify": "cmp $WFCTL_ROOT/factor.txt $WFCTL_INPUT_1",
            "map": {"like": "stage-1"},
            "task_outputs": ["both.txt"],
            **parameters,
        },
    }


@pytest.mark.long
@pytest.mark.slow
def test_task_reads_results_of_its_partner(tmp_path: Path) -> None:
    """WFCTL_LIKE_FOLDER names the partner's results, and is unset if the partner failed."""
    one = sweep(tmp_path / "trace", {"points": [{"T": 1}, {"T": 2}]}, "[ $WFCTL_PARAM_T != 2 ]",
                tolerate=0.5)  # fmt: skip
    place = begun(tmp_path, one, like(tolerate=0.5))
    (place.path / "factor.txt").write_text("F\n")
    place.done("run")
    assert (place.path / "stage-2/tasks/T=1/both.txt").read_text() == '{"e": 1}\nF\n'
    (failed,) = place.done("tasks", "stage-2", "--failed")["tasks"]
    assert failed["key"] == "T=2"
    said = place.done("logs", "stage-2", "--task", "T=2", "--err")["text"]
    assert "WFCTL_LIKE_FOLDER" in said


@pytest.mark.slow
def test_location_variables_do_not_change_prepared_submissions(tmp_path: Path) -> None:
    """Only the attempt's own submission has the variables, not the prepared file."""
    place = begun(tmp_path, sweep(tmp_path / "trace", {"points": [{"T": 1}]}))
    place.done("dispatch", "stage-1", "--dry-run")
    place.done("run")
    prepared = place.path / "stage-1/submission.json"
    assert not prepared.exists() or "WFCTL_ROOT" not in prepared.read_text()
    (attempt,) = place.done("show", "stage-1")["attempts"]
    own = place.path / attempt["submission"]
    assert 'export WFCTL_ROOT=\\"$REMOTE_ROOT\\"' in own.read_text()
    assert place.call("verify").code == 0


@pytest.mark.parametrize(
    "command",
    [
        "python3 $WFCTL_ROOT/tools/fit",
        'python3 "${WFCTL_ROOT}/tools/fit"',
        'python3 "$WFCTL_ROOT"/tools/fit',
        "python3 $WFCTL_INPUT_1",
        'python3 "${WFCTL_INPUT_1}"',
    ],
)
@pytest.mark.parametrize("name", ["command", "verify"])
def test_script_named_by_a_variable_is_part_of_the_approval(
    tmp_path: Path, name: str, command: str
) -> None:
    """The approval has the script's digest, as if the command contained its path."""
    stage = {"id": "stage-1", "name": "One", "inputs": ["tools/fit"], "parameters": {name: command}}
    place = begun(tmp_path, stage)
    (place.path / "tools").mkdir()
    (place.path / "tools/fit").write_text("print(1)\n")
    shown = Place(place.path).done("amend", "propose", "--stage", "stage-1", "--set", "name=New",
                                   "--reason", "clearer")  # fmt: skip
    found = place.done("amend", "show", shown["amendment"]["id"])
    assert "tools/fit" in found["scripts"]
