"""The method of a report: whole, so that somebody who reads it can type it again."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256
from html import unescape
from pathlib import Path

import pytest

from tests.cli.support import Place, call, write_plan
from tests.exports.support import text_of

LONG = "word " * 1000 + "end"
LINES = "first `line`\n```\n  second line\n```\nlast"
COMMAND = "python3 ../tell.py > out.txt\ntest -s out.txt"
STAGES = [
    {
        "id": "stage-1",
        "name": "Tell",
        "inputs": ["tell.py", "in.txt"],
        "outputs": ["stage-1/out.txt"],
        "parameters": {"command": COMMAND, "verify": "true", "long": LONG, "lines": LINES, "n": 2},
    }
]
SCRIPT = "import os\nprint(os.environ['WFCTL_PARAM_n'])\n"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A workflow of one stage, which is changed and ran a second time."""
    folder = tmp_path_factory.mktemp("method")
    place = Place(folder / "root")
    place.path.mkdir()
    (place.path / "tell.py").write_text(SCRIPT)
    (place.path / "in.txt").write_text("in\n")
    plan = {"workflow_id": "method-2026-03-31", "purpose": "Tell it.", "stages": STAGES}
    begun = call(
        "--root", str(place.path), "init", str(write_plan(folder, plan)), "--consent", "trust"
    )
    assert begun.code == 0
    assert place.call("run").code == 0
    change = ("--stage", "stage-1", "--set", "parameters.n=3", "--reason", "more")
    place.done("amend", "propose", *change)
    place.done("amend", "approve", "amend-1")
    assert place.call("run").code == 0
    return place


def markdown(place: Place) -> str:
    """Return the method as Markdown has it, blocks as they would be copied from it."""
    text = place.call("report").out
    return text[text.index("## Method") : text.index("## Attempts")].replace("\n  ", "\n")


def page(place: Place) -> str:
    """Return the method as the page has it."""
    text = text_of(place, "report")
    return unescape(text[text.index('id="method"') : text.index('id="attempts"')])


@pytest.mark.parametrize("told", [markdown, page])
def test_a_method_has_every_parameter_whole(ran: Place, told: Callable[[Place], str]) -> None:
    """A long one and one of several lines, with backticks in it, as they were given."""
    text = told(ran)
    for value in (COMMAND, LONG, LINES):
        assert value in text
    assert "Runs in a scratch copy of stage-1/" in text


@pytest.mark.parametrize("told", [markdown, page])
def test_a_method_has_the_files_that_were_read_run_and_made(
    ran: Place, told: Callable[[Place], str]
) -> None:
    """Each with the whole digest of what is there."""
    text = told(ran)
    for path in ("tell.py", "in.txt", "stage-1/out.txt"):
        assert path in text
        assert sha256((ran.path / path).read_bytes()).hexdigest() in text


@pytest.mark.parametrize("told", [markdown, page])
def test_a_method_says_where_it_ran_and_in_which_environment(
    ran: Place, told: Callable[[Place], str]
) -> None:
    """Host, mode, version of the program that ran it, python3, digest of the environment."""
    text = told(ran)
    (started, *_) = ran.done("events", "--type", "attempt.started")
    (launched, *_) = ran.done("events", "--type", "stage.launched")
    known = started["data"]["environment"]
    for part in (
        launched["data"]["host"],
        launched["data"]["mode"],
        known["sha256"],
        known["python3"],
    ):
        assert part in text
    assert launched["data"]["dpdispatcher_version"] in text


def test_a_block_ends_only_where_it_ends(ran: Place) -> None:
    """A value with a fence of its own stands in a longer one."""
    text = ran.call("report").out
    found = re.search(r"- lines:\n\n  (`{4,})\n(.*?)\n  \1\n", text, re.DOTALL)
    assert found is not None
    assert found[2].replace("\n  ", "\n").removeprefix("  ") == LINES


def test_each_attempt_is_told_with_the_parameters_it_ran_with(ran: Place) -> None:
    """The method is that of the attempt behind the outputs; others say what was different."""
    assert "- n: `3`" in markdown(ran)
    first = next(line for line in ran.call("report").out.splitlines() if "att-0001: " in line)
    assert first.endswith(", with n = `2`")
    assert "<code>n = 2</code>" in text_of(ran, "report")


@pytest.mark.parametrize("asked", ["report.md", "docs/deep/report.md"])
def test_a_figure_is_linked_from_where_the_report_lies(tmp_path: Path, asked: str) -> None:
    """Asked for, on standard output (from the root), and written by a completion."""
    root = tmp_path / "root"
    root.mkdir()
    parameters = {"command": "printf '<svg/>' > 'a b.svg'", "verify": "true"}
    stage = {"id": "stage-1", "name": "Draw", "parameters": parameters}
    plan = {"workflow_id": "x-2026-03-31", "stages": [{**stage, "outputs": ["stage-1/a b.svg"]}]}
    plan_file = str(write_plan(tmp_path, plan))
    assert call("--root", str(root), "init", plan_file, "--consent", "trust").code == 0
    place = Place(root)
    assert place.call("run").code == 0
    place.done("report", str(root / asked))
    (of_completion,) = (root / "docs/superscientist/reports").glob("*.md")
    for file in (root / asked, of_completion):
        found = re.search(r"!\[[^]]*\]\(<([^>]+)>\)", file.read_text())
        assert found is not None
        assert (file.parent / found[1].replace("%20", " ")).read_text() == "<svg/>"
    assert "](<stage-1/a%20b.svg>)" in place.call("report").out
