"""The method section of a report is complete, so that a reader can repeat the work."""

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
    """Create a workflow of one stage that ran, was changed, and ran again."""
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
    """Return the method section in Markdown, with code blocks as a reader copies them."""
    text = place.call("report").out
    return text[text.index("## Method") : text.index("## Attempts")].replace("\n  ", "\n")


def page(place: Place) -> str:
    """Return the method section of the HTML report."""
    text = text_of(place, "report")
    return unescape(text[text.index('id="method"') : text.index('id="attempts"')])


@pytest.mark.parametrize("told", [markdown, page])
def test_method_has_every_parameter_in_full(ran: Place, told: Callable[[Place], str]) -> None:
    """Long values and values of several lines with backticks are unchanged."""
    text = told(ran)
    for value in (COMMAND, LONG, LINES):
        assert value in text
    assert "Runs in a scratch copy of stage-1/" in text


@pytest.mark.parametrize("told", [markdown, page])
def test_method_lists_inputs_scripts_and_outputs(ran: Place, told: Callable[[Place], str]) -> None:
    """The method lists each input, script and output with the full digest of its content."""
    text = told(ran)
    for path in ("tell.py", "in.txt", "stage-1/out.txt"):
        assert path in text
        assert sha256((ran.path / path).read_bytes()).hexdigest() in text


@pytest.mark.parametrize("told", [markdown, page])
def test_method_has_host_mode_and_environment(ran: Place, told: Callable[[Place], str]) -> None:
    """The versions of DPDispatcher and Python and a digest of the environment are included."""
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


def test_code_block_has_a_longer_fence_than_its_content(ran: Place) -> None:
    """A value that contains a fence does not end its block."""
    text = ran.call("report").out
    found = re.search(r"- lines:\n\n  (`{4,})\n(.*?)\n  \1\n", text, re.DOTALL)
    assert found is not None
    assert found[2].replace("\n  ", "\n").removeprefix("  ") == LINES


def test_each_attempt_shows_its_own_parameters(ran: Place) -> None:
    """The method shows the last attempt, and earlier attempts list their differences."""
    assert "- n: `3`" in markdown(ran)
    first = next(line for line in ran.call("report").out.splitlines() if "att-0001: " in line)
    assert first.endswith(", with n = `2`")
    assert "<code>n = 2</code>" in text_of(ran, "report")


@pytest.mark.parametrize("asked", ["report.md", "docs/deep/report.md"])
def test_report_links_figures_relative_to_its_own_path(tmp_path: Path, asked: str) -> None:
    """Links to figures work in a report file, on stdout and after the completion."""
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
