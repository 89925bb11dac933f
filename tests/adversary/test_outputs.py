"""The required outputs of a stage: never reduced without approval, never outside the root."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.amendments.support import Place


@pytest.mark.parametrize("outputs", [[], ["stage-1/other.txt"]])
def test_outputs_of_a_stage_are_not_reduced_without_approval(
    outputs: list[str], trusted: Place
) -> None:
    """`append` and an adopted manual edit cannot remove an output of a stage."""
    data = json.dumps({"stage": "stage-1", "outputs": outputs})
    answer = trusted.json("append", "outputs.recorded", "--data", data)
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    path = trusted.path / "workflow-state.json"
    document = json.loads(path.read_text())
    document["stages"][0]["outputs"] = outputs
    path.write_text(json.dumps(document))
    trusted.call("drift", "adopt")
    assert trusted.done("show", "stage-1")["outputs"] == ["stage-1/out.txt"]


def test_amendment_removes_an_output(trusted: Place) -> None:
    """A user can add an output directly, but can remove one only with an amendment."""
    trusted.done("stage", "outputs", "stage-1", "stage-1/out.txt", "stage-1/more.txt")
    words = ("--stage", "stage-1", "--set", 'outputs=["stage-1/more.txt"]', "--reason", "r")
    trusted.propose(*words)
    trusted.approve()
    assert trusted.done("show", "stage-1")["outputs"] == ["stage-1/more.txt"]


@pytest.mark.parametrize("path", ["../precious", "/etc/passwd", "stage-1/../../precious", ""])
def test_output_outside_the_root_is_refused(path: str, trusted: Place) -> None:
    """The command line, an amendment and a plan all refuse such a path."""
    before = trusted.version()
    answer = trusted.json("stage", "outputs", "stage-1", "stage-1/out.txt", path)
    assert (answer.code, answer.error["code"]) == (2, "invalid_payload")
    words = ("--stage", "stage-1", "--set", f"outputs={json.dumps([path])}", "--reason", "r")
    assert trusted.json("amend", "propose", *words).code in (2, 5)
    assert trusted.version() == before


@pytest.mark.parametrize("way", ["row", "link"])
def test_dispatch_moves_nothing_outside_the_root(way: str, trusted: Place, tmp_path: Path) -> None:
    """`dispatch` refuses an output path that leads out of the root, also through a link."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis").write_text("years of work")
    named = "../precious/thesis" if way == "row" else "stage-1/link/thesis"
    (trusted.path / "stage-1").mkdir()
    (trusted.path / "stage-1/link").symlink_to(precious)
    data = {"stage": "stage-1", "outputs": ["stage-1/out.txt", named]}
    trusted.write_row("outputs.recorded", data)
    answer = trusted.json("dispatch", "stage-1")
    assert (answer.code, answer.error["code"]) == (1, "unusable_path"), answer
    assert (precious / "thesis").read_text() == "years of work"
