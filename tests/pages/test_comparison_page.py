"""The page that compares runs offers lists, takes another workflow, and writes sentences."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.support import Place, call, write_plan
from tests.pages.support import Served, served


def _make_fit(folder: Path, workflow: str, tc: float) -> Place:
    """Create a workflow with one completed stage, which writes a number with its error."""
    folder.mkdir(parents=True)
    metric = {"at": "fit.json#/tc", "error": "#/error", "unit": "K"}
    command = f'echo \'{{"tc": {tc}, "error": 0.01}}\' > fit.json'
    stage = {
        "id": "stage-1",
        "name": "Fit",
        "outputs": ["stage-1/fit.json"],
        "parameters": {"command": command, "metrics": {"tc": metric}},
    }
    plan = write_plan(folder, {"workflow_id": workflow, "stages": [stage]})
    made = call("--root", str(folder), "init", str(plan), "--consent", "trust")
    assert made.code == 0, made
    place = Place(folder)
    assert place.call("run").code == 0, place.log()
    return place


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve two completed workflows with different results."""
    folder = tmp_path_factory.mktemp("two")
    place = _make_fit(folder / "every" / "one", "one", 2.25)
    _make_fit(folder / "every" / "two", "two", 2.27)
    place.done("rerun", "stage-1", "--reason", "Once more.")
    assert place.call("run").code == 0, place.log()
    with served(folder, "--workflows", str(folder / "every")) as found:
        yield found


@pytest.mark.slow
def test_page_offers_the_attempts_and_the_other_workflows(pages: Served) -> None:
    """Both fields have a list of stages and attempts, and a menu names the other workflows."""
    text = pages.get("/w/one/compare").text
    listed = re.findall(r'<option value="([^"]*)"', text)
    assert listed == ["", "two", *["stage-1", "stage-1/att-0002", "stage-1/att-0001"] * 2]


@pytest.mark.slow
def test_page_compares_stages_of_two_workflows(pages: Served) -> None:
    """By default, the second item has the same name in the other workflow."""
    text = pages.get("/w/one/compare?a=stage-1&with=two").text
    sentence = "The metric tc changes from 2.250 ± 0.010 K to 2.270 ± 0.010 K, by +0.02 (1.4 σ)."
    assert sentence in text
    assert "<strong>two/stage-1</strong>" in text
    assert pages.get("/w/one/compare?with=two").status == 200
    assert pages.get("/w/one/compare?a=stage-1&with=three").status == 404


@pytest.mark.slow
def test_page_describes_differences_of_two_attempts(pages: Served) -> None:
    """Equal results are named as well."""
    text = pages.get("/w/one/compare?a=stage-1/att-0001&b=stage-1/att-0002").text
    assert "The metric tc is the same." in text
    assert "The output stage-1/fit.json is the same." in text


@pytest.mark.slow
def test_links_stay_valid_when_a_copy_is_listed(tmp_path: Path) -> None:
    """The original keeps its address, and the copy gets another one."""
    every = tmp_path / "every"
    _make_fit(every / "original", "fit", 2.25)
    with served(tmp_path, "--workflows", str(every)) as pages:
        assert pages.get("/w/fit/").status == 200
        shutil.copytree(every / "original", every / "copy")
        links = re.findall(r'href="(/w/[^"]+)"', pages.get("/").text)
        assert len(links) == 2
        assert "/w/fit/" in links
        (copy,) = {*links} - {"/w/fit/"}
        assert pages.get(copy).status == 200
        shutil.rmtree(every / "original")
        assert pages.get("/").status == 200
        assert pages.get(copy).status == 200
