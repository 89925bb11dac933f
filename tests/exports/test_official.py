"""Exports checked with official schemas, libraries and validators."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from eventstore.event import Actor
from lifecycle.payload.models import Payload
from tests.cli.support import HERE, Place, tree
from tests.exports.support import exported, text_of
from tests.exports.world import BOT, RECONCILER, STORIES, done, make_root, named
from tests.keeping.support import made, stage
from tests.need import need_programs
from tests.projections.story import attempt, observed
from tests.sweeps.looped import looped

FILE = "ro-crate-metadata.json"

#: Stands for the last version.
END = 0


def test_running_attempts_are_ordered_by_their_start(tmp_path: Path) -> None:
    """An attempt that replaces a lost attempt comes after the attempts that started earlier."""
    story: list[tuple[Actor, Payload | str]] = [
        *((BOT, command) for command in done("stage-1", 1)),
        (BOT, attempt("stage-2", 1, "tmux")),
        (BOT, attempt("stage-3", 1, "tmux")),
        (RECONCILER, observed("stage-2", 1)),
        (RECONCILER, attempt("stage-2", 2, "tmux", recovers="att-0001")),
    ]
    place = Place(make_root(tmp_path / "root", story))
    began = ["stage-1.att-0001", "stage-2.att-0001", "stage-3.att-0001", "stage-2.att-0002"]
    runs = [id_ for id_ in entities(place) if id_.startswith("#run-")]
    assert runs == [f"#run-{run}" for run in began]


def entities(place: Place, *more: str) -> dict[str, dict[str, Any]]:
    """Return the entities of a crate by their ids."""
    graph = json.loads(exported(place, "ro-crate", *more))["@graph"]
    assert len({entity["@id"] for entity in graph}) == len(graph)
    return {entity["@id"]: entity for entity in graph}


def crate_of(place: Place, folder: Path, *at: str) -> Path:
    """Write a crate with its main workflow, and return its folder."""
    folder.mkdir()
    place.done("export", "ro-crate", str(folder / "ro-crate-metadata.json"), *at)
    place.done("export", "state", str(folder / "workflow-state.json"), *at)
    return folder


def judged(home: Path, crates: list[Path]) -> list[dict[str, Any]]:
    """Return the verdict of the official validator for each crate."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.exports.crate_judge", *map(str, crates)],
        cwd=HERE, capture_output=True, text=True, check=False, timeout=1200,
        env={**os.environ, "HOME": str(home)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    verdicts: list[dict[str, Any]] = json.loads(done.stdout)
    return verdicts


# The history of this test contains a charge that a person wrote by hand, as logs of older versions
# do. The mark allows this.
@pytest.mark.forged
@pytest.mark.slow
@pytest.mark.parametrize(
    ("moments", "called"),
    [
        ([END], named),
        pytest.param([2, 7, 14, 20, 33, 37], str, marks=pytest.mark.long),
        pytest.param([2, 7, 14, 20, 37], named, marks=pytest.mark.soak),
        pytest.param([33, END], str, marks=pytest.mark.soak),
    ],
)
def test_crate_of_every_state_is_valid(
    tmp_path: Path, moments: list[int], called: Callable[[str], str]
) -> None:
    """The validator accepts crates of new, running, failed, lost, amended and completed states."""
    place = Place(make_root(tmp_path / "root", STORIES["completed"], called))
    at = [place.version() if n == END else n for n in moments]
    crates = [crate_of(place, tmp_path / f"crate-{n}", "--at", str(n)) for n in at]
    before = tree(tmp_path)
    verdicts = judged(tmp_path, crates)
    assert [verdict["issues"] for verdict in verdicts] == [[]] * len(moments)
    assert all(verdict["checks"] >= 80 for verdict in verdicts)
    assert {k: v for k, v in tree(tmp_path).items() if k in before} == before


def test_crate_has_an_action_for_each_attempt_and_decision(completed: Place) -> None:
    """Each attempt is an action, and the action of an amendment names the deciding person."""
    found = entities(completed)
    runs = [i for i in found if i.startswith("#run-")]
    assert len(runs) == 8
    assert found["#run-stage-2.att-0001"]["error"] == "exit 137"
    assert found["#run-stage-2.att-0001"]["actionStatus"].endswith("FailedActionStatus")
    assert (found["#amend-1"]["@type"], found["#amend-1"]["agent"]) == (
        "UpdateAction", {"@id": "#user-ada"},
    )  # fmt: skip
    assert found["#amend-2"]["@type"] == "RejectAction"
    assert found["#user-ada"]["@type"] == "Person"
    stated = entities(completed, "--license", "https://spdx.org/licenses/CC-BY-4.0")
    assert stated["./"]["license"] == {"@id": "https://spdx.org/licenses/CC-BY-4.0"}


def test_step_position_is_the_position_of_its_stage_in_the_plan(told: Place) -> None:
    """The position follows the order of the plan and ignores numbers in stage names."""
    stages = [stage["id"] for stage in told.done("status")["stages"]]
    steps = [e for i, e in entities(told).items() if i.startswith("#step-")]
    for step in steps:
        stage = step["@id"].removeprefix("#step-")
        assert step["position"] == str(stages.index(stage) + 1)


def test_stage_that_never_ran_is_not_in_the_crate(half_way: Place) -> None:
    """The crate has neither a tool nor a step for the stage, and no empty values."""
    found = entities(half_way)
    steps = [i for i in found if i.startswith("#step-")]
    assert steps == ["#step-stage-1", "#step-stage-2", "#step-stage-3"]
    assert not any("stage-5" in i for i in found if i.startswith("urn:"))
    assert all(value not in (None, "", []) for e in found.values() for value in e.values())
    assert "endTime" not in found["#run-stage-2.att-0004"]


KNOWN = "https://doi.org/10.1103/PhysRev.65.117"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Create a stage with metrics and a figure, whose check fails once and then passes."""
    folder = tmp_path_factory.mktemp("measured")
    metrics = {
        "T_c": {
            "at": "fit.json#/tc",
            "error": "#/error",
            "unit": "J",
            "reference": {"value": 2.2692, "source": KNOWN},
        },
        "n": {"at": "fit.json#/n", "error": "#/none", "reference": {"value": 4, "source": "Ising"}},
        "m": "fit.json#/n",
    }
    one = stage(
        1,
        f"cp {folder}/given fit.json; touch fit.json; echo '<svg/>' > fit.svg",
        outputs=["stage-1/fit.json", "stage-1/fit.svg"],
        parameters={"metrics": metrics, "verify": "test -e good"},
    )
    place = made(folder, one, consent="trust")
    given = folder / "given"
    given.write_text(json.dumps({"tc": 2.1, "error": 0.3, "n": 4, "none": 0}))
    assert place.call("run").code != 0
    given.write_text(json.dumps({"tc": 2.261, "error": 0.01, "n": 4, "none": 0}))
    (place.path / "good").touch()
    place.done("stage", "retry", "stage-1", "--fix", "Look longer.")
    assert place.call("run").code == 0
    return place


@pytest.mark.long
@pytest.mark.parametrize("name", ["crate.zip", "crate", "there"])
def test_crate_is_a_folder_or_a_zip_with_its_files(
    measured: Place, tmp_path: Path, name: str
) -> None:
    """Each recorded file is an entity, and the official validator accepts the crate."""
    (tmp_path / "there").mkdir()
    answer = measured.done("export", "ro-crate", str(tmp_path / name))
    folder = tmp_path / name
    if name.endswith(".zip"):
        folder = tmp_path / "unpacked"
        with ZipFile(tmp_path / name) as archive:
            archive.extractall(folder)
    inside = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    assert inside == {FILE, "workflow-state.json", "stage-1/fit.json", "stage-1/fit.svg"}
    assert answer["taken"].keys() == {"stage-1/fit.json", "stage-1/fit.svg"}
    graph = json.loads((folder / FILE).read_text())["@graph"]
    known = {entity["@id"]: entity for entity in graph}
    for path in answer["taken"]:
        assert known[path]["sha256"] == sha256((folder / path).read_bytes()).hexdigest()
    assert [one["issues"] for one in judged(tmp_path, [folder])] == [[]]


def test_crate_export_does_not_replace_a_folder(measured: Place, tmp_path: Path) -> None:
    """The export refuses an existing workflow folder.

    The name of a JSON file exports only the metadata, and `--with none` leaves out the files.
    """
    answer = measured.json("export", "ro-crate", str(measured.path))
    assert (answer.code, answer.error["code"]) == (4, "already_exists")
    measured.done("export", "ro-crate", str(tmp_path / FILE))
    assert json.loads((tmp_path / FILE).read_text())["@graph"]
    measured.done("export", "ro-crate", str(tmp_path / "crate"), "--with", "none")
    assert len(list((tmp_path / "crate").iterdir())) == 2
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_crate_has_the_error_and_the_reference_of_a_number(
    measured: Place,
) -> None:
    """The crate has the error and the reference as separate values, even an error of 0."""
    found = entities(measured)
    run = "stage-1.att-0002"
    number = found[f"#number-{run}-T_c"]
    others = [found[one["@id"]] for one in number["valueReference"]]
    assert [(one["name"], one["value"], one["unitText"]) for one in others] == [
        ("standard error of T_c", 0.01, "J"),
        ("reference of T_c", 2.2692, "J"),
    ]
    assert (number["propertyID"], others[1]["description"]) == (KNOWN, KNOWN)
    assert found[f"#error-{run}-n"]["value"] == 0
    assert "propertyID" not in found[f"#number-{run}-n"]
    assert "valueReference" not in found[f"#number-{run}-m"]
    assert {"@id": f"#number-{run}-T_c"} in found[f"#run-{run}"]["result"]
    assert {"@id": f"#error-{run}-T_c"} not in found[f"#run-{run}"]["result"]


def test_crate_has_the_numbers_of_a_failed_attempt(measured: Place) -> None:
    """The numbers are results of the failed action."""
    found = entities(measured)
    failed = found["#run-stage-1.att-0001"]
    assert failed["actionStatus"].endswith("FailedActionStatus")
    assert {"@id": "#number-stage-1.att-0001-T_c"} in failed["result"]
    assert found["#number-stage-1.att-0001-T_c"]["value"] == 2.1


def test_figure_in_a_crate_is_an_image(measured: Place) -> None:
    """A figure file has the types File and ImageObject."""
    kinds = {e["name"]: e["@type"] for e in entities(measured).values() if "sha256" in e}
    assert kinds["stage-1/fit.svg"] == ["File", "ImageObject"]
    assert kinds["stage-1/fit.json"] == "File"


def test_table_shows_an_error_of_zero_as_a_number(measured: Place) -> None:
    """An error of 0 is shown as 0, because an empty cell means an unknown error."""
    rows = list(csv.DictReader(text_of(measured, "table").splitlines()))[:2]
    assert [float(row["metrics.n.error"]) for row in rows] == [0, 0]
    assert [float(row["metrics.T_c.error"]) for row in rows] == [0.3, 0.01]


@pytest.mark.long
@pytest.mark.slow
def test_crate_names_the_commit_of_the_code(measured: Place) -> None:
    """The description of the run has the commit that the log recorded."""
    need_programs("git")
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for line in (["init", "-q"], [*who, "commit", "-q", "--allow-empty", "-m", "one"]):
        subprocess.run(["git", "-C", str(measured.path), *line], check=True)
    measured.done("rerun", "stage-1", "--reason", "again")
    assert measured.call("run").code == 0
    commit = measured.done("show", "stage-1")["attempts"][-1]["code"]["commit"]
    assert commit in entities(measured)["#run-stage-1.att-0003"]["description"]


@pytest.fixture(scope="module")
def in_rounds(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Create a loop of three rounds in which a stage proposes the points."""
    place = looped(tmp_path_factory.mktemp("rounds"), *(f"x\n{n}\n" for n in (7, 8, 9)))
    place.done("run")
    return place


@pytest.fixture(scope="module")
def by_an_agent(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Create a loop in which an agent chose the points of two rounds."""
    place = looped(tmp_path_factory.mktemp("agent"), "x\n0\n", "x\n0\n", ask="agent")
    for points in ('[{"x": 7}]', '[{"x": 8}]'):
        assert place.json("run").code == 6
        place.done("round", "propose", "walk", "--points", points, "--reason", "lower")
    return place


@pytest.mark.long
@pytest.mark.slow
def test_crate_has_the_inputs_and_results_of_each_round(in_rounds: Place) -> None:
    """The input of a round has the numbers of the previous round and its file of points."""
    found = entities(in_rounds)
    rounds = [found[f"#round-walk-{n}"] for n in (1, 2, 3)]
    assert "#round-walk-4" not in found
    results = [{one["@id"] for one in each["result"]} for each in rounds]
    assert results[1] == {"#number-run.att-0002-f", "#number-next.att-0002-best"}
    for each, before in zip(rounds[1:], results, strict=False):
        used = {one["@id"] for one in each["object"]}
        assert before <= used
        assert [found[id_]["name"] for id_ in used if id_.startswith("#file-")] == ["next/next.csv"]
        assert each["participant"]["@id"] == found["#step-next"]["workExample"]["@id"]
    (points,) = (one["@id"] for one in rounds[1]["object"] if "points" in one["@id"])
    assert json.loads(found[points]["value"]) == [{"x": 7}]
    runs = {found[one["@id"]]["object"]["@id"] for one in found["#orchestration-walk-2"]["object"]}
    assert runs == {"#run-run.att-0002", "#run-next.att-0002"}


@pytest.mark.long
@pytest.mark.slow
def test_crate_names_the_agent_that_chose_the_points_of_a_round(by_an_agent: Place) -> None:
    """The crate names the agent, and describes the round with the agent's reason."""
    chosen = entities(by_an_agent)["#round-walk-2"]
    assert chosen["participant"]["@id"].startswith("#agent-")
    assert chosen["description"] == "lower"


@pytest.mark.long
@pytest.mark.slow
def test_crates_with_numbers_figures_and_rounds_are_valid(
    measured: Place, in_rounds: Place, by_an_agent: Place, tmp_path: Path
) -> None:
    """The validator accepts complete and waiting rounds, chosen by a stage or by an agent."""
    crates = [
        crate_of(measured, tmp_path / "numbers"),
        crate_of(in_rounds, tmp_path / "over"),
        crate_of(by_an_agent, tmp_path / "under-way"),
    ]
    assert "#round-walk-3" in entities(by_an_agent)
    assert [verdict["issues"] for verdict in judged(tmp_path, crates)] == [[]] * len(crates)
