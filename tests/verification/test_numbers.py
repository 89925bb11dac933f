"""wfctl reads the metrics of a stage from its outputs, records them and shows results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lifecycle.words.metrics import Metric, parse_valid_metrics
from projections.words.format_numbers import format_with_error
from projections.words.format_results import describe_number, measure_difference
from reconciler.records.numbers import read_metric
from tests.cli.support import Place, call, write_plan
from tests.pages.support import served
from tests.sweeps.support import sweep

T_C = {
    "at": "fit.json#/tc",
    "error": "#/error",
    "unit": "J",
    "reference": {"value": 2.2692, "source": "Onsager"},
}
TOLD = "T_c = 2.261 ± 0.010 J (0.8 σ from 2.2692, Onsager)"
FIT = json.dumps({"tc": 2.261, "error": 0.0102})


def fit(command: str = f"echo '{FIT}' > fit.json", **parameters: Any) -> dict[str, Any]:
    """Return a stage whose job writes a JSON file with a number and its error."""
    return {
        "id": "stage-1",
        "name": "Fit",
        "outputs": ["stage-1/fit.json"],
        "parameters": {"command": command, "metrics": {"T_c": T_C}, **parameters},
    }


def begun(folder: Path, *stages: Any, results: Any = ("stage-1.T_c",)) -> Place:
    """Create a workflow of the given stages, whose plan names the given results."""
    place = Place(folder / "root")
    place.path.mkdir()
    plan = {"workflow_id": "fit", "purpose": "Where it melts.", "stages": stages}
    plan |= {"results": list(results)} if results is not None else {}
    place.done("init", str(write_plan(folder, plan)), "--consent", "trust")
    return place


def recorded(place: Place, type_: str = "stage.completed") -> Any:
    """Return the metrics of the newest event of a type."""
    return place.done("events", "--type", type_, "-n", "1")[0]["data"]["metrics"]


def test_status_of_a_finished_workflow_starts_with_its_result(tmp_path: Path) -> None:
    """The first line has the value, error, unit, and distance from the reference value."""
    place = begun(tmp_path, fit())
    assert "T_c" not in place.call("status").out
    place.done("run")
    assert recorded(place)[0] == {
        "name": "T_c",
        "value": 2.261,
        "error": 0.0102,
        "unit": "J",
        "path": "stage-1/fit.json",
        "pointer": "/tc",
        "task": None,
    }
    assert place.call("status").out.splitlines()[0] == TOLD
    assert place.call("results").out.splitlines() == [TOLD]
    assert place.done("status")["results"][0]["text"] == TOLD
    assert place.done("metrics", "stage-1")["metrics"][0]["value"] == 2.261
    assert f"result: {TOLD}" in place.call("rehydrate").out
    (mine,) = [
        w for w in call("list", "-o", "json").data["workflows"] if w["root"] == str(place.path)
    ]
    assert mine["results"] == [TOLD]
    assert TOLD in place.call("show", "stage-1").out
    assert place.call("fsck", "--protocol").code == 0
    assert place.call("replay", "--check").code == 0


def test_unfinished_workflow_shows_results_so_far(tmp_path: Path) -> None:
    """For a result without a value, `results` names the stage that will compute it."""
    more = {"id": "stage-2", "name": "Judge", "depends_on": ["stage-1"]}
    place = begun(tmp_path, fit(), more)
    assert place.call("results").out.splitlines() == ["T_c (stage-1 is ready)"]
    place.done("dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1")
    assert f"so far: {TOLD}" in place.call("status").out


@pytest.mark.parametrize(
    ("name", "content", "at", "value"),
    [
        ("fit.json", '{"a": [{"b/c": 7}]}', "fit.json#/a/0/b~1c", 7),
        ("thermo.csv", "step,T\n0,1.5\n100,1.7\n", "thermo.csv#/T", 1.7),
        ("thermo.csv", "step,T\n0,1.5\n100,1.7\n", "thermo.csv#/T/0", 1.5),
        ("thermo.tsv", "step\tT\n0\t1.5e-3\n", "thermo.tsv#/T", 1.5e-3),
        ("thermo.csv", "\ufeffT,E\r\n1.5,2\r\n\r\n", "thermo.csv#/T", 1.5),
        ("thermo.csv", "T,E,\n.5,+2.,\n", "thermo.csv#/E", 2.0),
    ],
)
def test_metric_is_read_from_json_or_a_table_column(
    tmp_path: Path, name: str, content: str, at: str, value: float
) -> None:
    """From a table, wfctl reads the named row of a column, or by default the last row."""
    (tmp_path / "content").write_text(content)
    stage = fit(f"cp {tmp_path}/content {name}", metrics={"x": at})
    place = begun(tmp_path, {**stage, "outputs": [f"stage-1/{name}"]}, results=["stage-1.x"])
    place.done("run")
    assert recorded(place)[0]["value"] == value


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{}", "fit.json has no /tc"),
        ("", "fit.json is empty"),
        ("[" * 100_000, "fit.json is not JSON"),
        ('{"tc": "high", "error": 1}', "fit.json#/tc is not a finite number"),
        ('{"tc": 1, "error": true}', "fit.json#/error is not a finite number"),
        (
            '{"tc": 1, "error": -0.1}',
            "standard error fit.json#/error must be 0 or more, but it is -0.1",
        ),
        ('{"tc": 1' + "0" * 400 + ', "error": 1}', "fit.json#/tc is not a finite number"),
    ],
)
def test_stage_with_unreadable_metric_fails(tmp_path: Path, content: str, said: str) -> None:
    """The error message names the file and the problem."""
    (tmp_path / "content").write_text(content)
    place = begun(tmp_path, fit(f"cp {tmp_path}/content fit.json"))
    assert place.json("run").code == 6
    assert said in place.done("show", "stage-1")["last_error"]


@pytest.mark.parametrize(
    ("content", "pointer", "said"),
    [
        ("step,T\n0,1.5\n100\n", "/T", "has no single number at /T"),
        ("step,T\n0\n100,1.7\n", "/T/0", "has no single number at /T/0"),
        ("T,T\n1,2\n", "/T", "has no single number at /T"),
        ("step,T\n0,1_5\n", "/T", "has no single number at /T"),
        ("step,T\n0,nan\n", "/T", "#/T is not a finite number"),
        ("T\n" + "9" * 200_000 + "\n", "/T", "is not a table"),
        ("\n", "/T", "has no single number at /T"),
    ],
)
def test_ambiguous_table_cell_raises_an_error(
    tmp_path: Path, content: str, pointer: str, said: str
) -> None:
    """For a truncated row or a duplicate column, wfctl does not read another cell instead."""
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(ValueError, match=said):
        read_metric(tmp_path / "t.csv", Metric("T", "t.csv", pointer))


def test_unreadable_metric_file_is_not_called_empty(tmp_path: Path) -> None:
    """For a folder or a too large file, the error states why it cannot be read."""
    with (tmp_path / "t.json").open("wb") as file:
        file.truncate(2**31)
    (tmp_path / "d.json").mkdir()
    for name, said in (("t.json", "cannot be read: expected at most"), ("d.json", "cannot be")):
        with pytest.raises(ValueError, match=said):
            read_metric(tmp_path / name, Metric("T", name, "/T"))


def test_unreadable_table_fails_the_stage(tmp_path: Path) -> None:
    """The error message of the stage says that the file is not a table."""
    command = 'python3 -c \'print("T"); print("9" * 200000)\' > t.csv'
    stage = fit(command, metrics={"T": "t.csv#/T"})
    place = begun(tmp_path, {**stage, "outputs": ["stage-1/t.csv"]}, results=["stage-1.T"])
    assert place.json("run").code == 6
    assert "is not a table" in place.done("show", "stage-1")["last_error"]


def test_metric_of_a_failed_stage_is_shown_with_its_attempt_only(tmp_path: Path) -> None:
    """`show` lists the value in the attempt, and `results` does not show it."""
    place = begun(tmp_path, fit(verify="exit 1"))
    assert place.json("run").code == 6
    assert recorded(place, "stage.failed")[0]["value"] == 2.261
    shown = place.done("show", "stage-1")
    assert shown["attempts"][-1]["metrics"][0]["value"] == 2.261
    assert shown["metrics"] == []
    assert place.call("results").out.splitlines() == ["T_c (stage-1 is failed)"]


def test_stage_to_run_again_has_no_current_metric(tmp_path: Path) -> None:
    """If a stage waits for a rerun or failed in it, only its attempts have metrics."""
    (tmp_path / "fit.json").write_text(FIT)
    good = tmp_path / "good"
    good.touch()
    place = begun(tmp_path, fit(f"cp {tmp_path}/fit.json fit.json", verify=f"test -e {good}"))
    place.done("run")
    place.done("rerun", "stage-1", "--reason", "Again.")
    assert place.call("metrics").out.strip().startswith("no metrics of a whole stage are recorded:")
    good.unlink()
    (tmp_path / "fit.json").write_text(FIT.replace("2.261", "2.5"))
    place.json("run")
    assert place.done("metrics")["metrics"] == []
    shown = place.done("show", "stage-1")
    assert (shown["status"], shown["metrics"]) == ("failed", [])
    assert [one["metrics"][0]["value"] for one in shown["attempts"]] == [2.261, 2.5]
    lines = place.call("show", "stage-1").out.splitlines()
    assert next(line.strip() for line in lines if "T_c = 2." in line) == TOLD
    assert not any(line.strip().startswith("numbers") for line in lines)


def test_metric_of_a_sweep_is_the_value_of_its_best_task(tmp_path: Path) -> None:
    """The field `better` selects the best task, and a table column has the errors of all."""
    metrics = {"energy": {"at": "e.json#/e", "error": "e.json#/e", "better": "lower"}}
    stage = sweep(tmp_path / "trace", {"grid": {"T": [3, 1, 2]}}, metrics=metrics)
    place = begun(tmp_path, stage, results=["stage-1.energy"])
    place.done("run")
    assert place.call("results").out.splitlines() == ["energy = 1.0 ± 1.0 at T=1"]
    assert recorded(place)[0]["task"] == "T=1"
    head = (place.path / "stage-1/tasks.csv").read_text().splitlines()[0]
    assert head.endswith(",energy,energy_error")
    assert place.done("metrics", "stage-1")["metrics"][0]["energy_error"] == 3.0
    proven = place.call("prove", "stage-1.metrics/energy", f"{tmp_path}/energy.proof")
    assert (proven.code, recorded(place)[0]["path"]) == (0, "stage-1/tasks.csv"), proven.err
    (place.path / "stage-1/tasks.csv").write_text(head)
    assert "tasks.csv has changed since" in place.call("results").out


def test_adopting_edited_results_updates_their_metrics(tmp_path: Path) -> None:
    """After a person adopts an edited result file, its new value is the result."""
    place = begun(tmp_path, fit())
    place.done("run")
    (place.path / "stage-1/fit.json").write_text(FIT.replace("2.261", "2.5"))
    place.call("verify")
    place.done("verify", "stage-1", "--adopt", "--reason", "A slip of the hand.")
    assert recorded(place, "results.adopted")[0]["value"] == 2.5
    assert place.call("results").out.startswith("T_c = 2.500 ± 0.010 J")


def test_amended_metric_is_read_without_a_new_computation(tmp_path: Path) -> None:
    """wfctl verifies the existing outputs again and does not run the job again."""
    trace = tmp_path / "trace"
    place = begun(tmp_path, fit(f"echo x >> {trace}; echo '{FIT}' > fit.json"))
    place.done("run")
    metrics = json.dumps({"T_c": {**T_C, "unit": "K", "reference": 2.2}})
    more = ("--set", f"parameters.metrics={metrics}", "--reason", "The unit was wrong.")
    made = place.done("amend", "propose", "--stage", "stage-1", *more)
    place.done("amend", "approve", made["amendment"]["id"])
    place.done("run")
    assert trace.read_text() == "x\n"
    assert place.call("results").out.splitlines() == ["T_c = 2.261 ± 0.010 K (6.0 σ from 2.2)"]


def test_amendment_can_name_results_later(tmp_path: Path) -> None:
    """An amendment adds results to a finished workflow without a new computation."""
    place = begun(tmp_path, fit(), results=None)
    place.done("run")
    assert "the plan names no results" in place.call("results").out
    sets = ("--set", 'results=["stage-1.T_c"]', "--reason", "The answer.")
    made = place.done("amend", "propose", *sets)
    place.done("amend", "approve", made["amendment"]["id"])
    assert place.call("status").out.splitlines()[0] == TOLD
    bad = place.json("amend", "propose", "--set", 'results=["stage-1.nu"]', "--reason", "More.")
    assert bad.code == 5
    assert "no stage has 'stage-1.nu'" in bad.error["message"]


@pytest.mark.parametrize(
    ("metrics", "results", "said"),
    [
        ({"a.b": "fit.json#/tc"}, [], "expected a name without a slash"),
        ({"T_c": "fit.json"}, [], "a place in it, such as fit.json#/tc"),
        ({"T_c": "../fit.json#/tc"}, [], "a place in it"),
        (
            {"T_c": "other.json#/tc"},
            [],
            "other.json is not an output of the stage (outputs: stage-1/fit.json)",
        ),
        ({"T_c": {"at": "fit.json#/tc", "err": "#/e"}}, [], ".err: unknown field"),
        ({"T_c": {**T_C, "error": "other.json#/e"}}, [], "expected a place in the same file"),
        ({"T_c": {**T_C, "better": "most"}}, [], "expected lower or higher"),
        ({"T_c": {**T_C, "reference": {"value": "x"}}}, [], "reference.value: expected a number"),
        ({"T_c": {**T_C, "reference": {"value": 1, "error": -1}}}, [], "expected 0 or more"),
        ({"T_c": T_C}, ["stage-1.nu"], "results: no stage has 'stage-1.nu'"),
        ({"T_c": T_C}, "stage-1.T_c", "results: expected a list"),
    ],
)
def test_plan_with_invalid_metrics_or_results_is_refused(
    tmp_path: Path, metrics: Any, results: Any, said: str
) -> None:
    """The error message names the invalid field."""
    plan = {"workflow_id": "fit", "stages": [fit(metrics=metrics)], "results": results}
    refused = call("plan", "check", str(write_plan(tmp_path, plan)), "-o", "json")
    assert refused.code == 1
    assert said in refused.error["message"]


def test_parameter_named_metrics_in_another_form_is_ignored() -> None:
    """In older workflows, `metrics` may be an ordinary parameter of the command."""
    for value in (["rmsd"], "rmsd", None, {"rmsd": 7}):
        assert parse_valid_metrics({"metrics": value}) == {}


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (2.2612, 0.0098, "2.2612 ± 0.0098"),
        (2.2612, 0.0996, "2.261 ± 0.100"),
        (1234.5, 67.0, "1234 ± 67"),
        (-0.00012345, None, "-0.00012345"),
        (5.0, None, "5"),
        (6.02e23, 1e19, "6.02e+23 ± 1e+19"),
        (1.0, 0.0, "1 ± 0"),
    ],
)
def test_number_is_rounded_to_two_digits_of_its_error(
    value: float, error: float | None, text: str
) -> None:
    """A number without an error is printed with all its significant digits."""
    assert format_with_error(value, error) == text


def test_distance_without_an_error_is_printed_in_percent() -> None:
    """A value of 2 with the reference 1.6 is printed as "+25.00 % from 1.6"."""
    number = {"name": "x", "value": 2.0}
    metric = parse_valid_metrics({"metrics": {"x": {"at": "a.json#/x", "reference": 1.6}}})["x"]
    assert describe_number(number, metric) == "x = 2 (+25.00 % from 1.6)"


@pytest.mark.long
def test_result_shows_changed_file_or_stale_stage(tmp_path: Path) -> None:
    """Every view marks a result whose file has changed or whose stage is stale."""
    judged = {
        "id": "stage-2",
        "name": "Judge",
        "depends_on": ["stage-1"],
        "inputs": ["stage-1/fit.json"],
        "outputs": ["stage-2/best.json"],
        "parameters": {
            "command": "cp ../stage-1/fit.json best.json",
            "metrics": {"best": "best.json#/tc"},
        },
    }
    place = begun(tmp_path, fit(), judged, results=["stage-1.T_c", "stage-2.best"])
    place.done("run")
    (place.path / "stage-1/fit.json").write_text(FIT.replace("2.261", "2.5"))
    changed = f"{TOLD} (stage-1/fit.json has changed since)"
    stale = "best = 2.261 (stage-2 is stale)"
    assert place.call("results").out.splitlines() == [changed, stale]
    assert place.call("status").out.splitlines()[:2] == [changed, stale]
    assert place.done("status")["results"][1]["lacking"] == "stage-2 is stale"
    assert f"**{stale}**" in place.call("report", "-").out
    assert f"result: {changed}" in place.call("rehydrate").out
    with served(tmp_path, "--root", str(place.path)) as pages:
        page = pages.get("/w/fit/").text
    assert "stage-1/fit.json has changed since</span>" in page
    assert f"{stale.partition(' (')[0]} <span" in page


def test_metrics_with_the_same_name_are_shown_with_their_stages(tmp_path: Path) -> None:
    """`results` adds the stage to both names, and shows a repeated result only once."""
    other = {
        **fit(metrics={"T_c": "fit.json#/tc"}),
        "id": "stage-2",
        "outputs": ["stage-2/fit.json"],
    }
    named = ["stage-1.T_c", "stage-2.T_c", "stage-1.T_c"]
    place = begun(tmp_path, fit(), other, results=named)
    place.done("run")
    assert place.call("results").out.splitlines() == [f"stage-1.{TOLD}", "stage-2.T_c = 2.261"]


def test_missing_result_file_in_an_output_folder_fails_the_stage(tmp_path: Path) -> None:
    """The stage's error names the result file that its output folder does not contain."""
    stage = {
        "id": "stage-1",
        "name": "Draw",
        "outputs": ["stage-1/figures"],
        "parameters": {"command": "mkdir -p figures; echo x > figures/a.svg"},
    }
    place = begun(tmp_path, stage, results=["stage-1/figures/b.svg"])
    assert place.json("run").code == 6
    said = "stage-1/figures/b.svg, which the plan names as a result, does not exist"
    assert said in place.done("show", "stage-1")["last_error"]


def test_distance_of_extreme_numbers_is_finite_or_none() -> None:
    """The distance of very large or small numbers does not overflow."""
    assert measure_difference(1e308, None, -1e308, None) is None
    assert measure_difference(5e-324, 5e-324, 1e308, None) == (1e308, None, None)
    assert measure_difference(10**300, 1, 0.0, None) == (-1e300, -1.0, 1e300)
    metric = parse_valid_metrics({"metrics": {"x": {"at": "a.json#/x", "reference": 1e308}}})["x"]
    assert (
        describe_number({"name": "x", "value": -1e308}, metric) == "x = -1e+308 (far from 1e+308)"
    )


@pytest.mark.parametrize(
    ("metrics", "name"),
    [
        ({"T": "e.json#/e"}, "T"),
        ({"memory": "e.json#/e"}, "memory"),
        ({"state": "e.json#/e"}, "state"),
        ({"e": {"at": "e.json#/e", "error": "#/d"}, "e_error": "e.json#/d"}, "e_error"),
    ],
)
def test_metric_named_like_a_task_column_is_refused(
    tmp_path: Path, metrics: Any, name: str
) -> None:
    """`plan check` refuses the name, as two columns of the task table would have it."""
    stage = sweep(tmp_path / "trace", {"grid": {"T": [1, 2]}}, metrics=metrics)
    plan = {"workflow_id": "fit", "stages": [stage]}
    refused = call("plan", "check", str(write_plan(tmp_path, plan)), "-o", "json")
    assert refused.code == 1
    assert f"parameters.metrics: {name} " in refused.error["message"]
