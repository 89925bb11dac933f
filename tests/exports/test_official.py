"""The formats of others, judged by those who made them: their schemas, libraries and validators."""

from __future__ import annotations

import base64
import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from prov.model import ProvDocument

from eventstore.event import Actor
from lifecycle.payload.models import Payload
from projections.exports.otel import _EVENTS
from tests.cli.support import HERE, Place, tree
from tests.exports.support import exported, text_of
from tests.exports.world import BOT, RECONCILER, STORIES, done, make_root, named
from tests.keeping.support import made, stage
from tests.need import need_programs
from tests.projections.story import attempt, observed
from tests.rounds import first
from tests.sweeps.looped import looped

#: The last event, whichever it is.
END = 0


def spans(place: Place) -> list[dict[str, Any]]:
    """Return the spans of an export."""
    lines = [json.loads(line) for line in text_of(place, "otel").splitlines()]
    return [line["resourceSpans"][0]["scopeSpans"][0]["spans"][0] for line in lines]


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span, key by value."""
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def test_the_traces_are_what_the_official_messages_say(told: Place) -> None:
    """Each line is a message of OTLP; its ids are hexadecimal there, and base64 for protobuf."""
    for line in text_of(told, "otel").splitlines():
        request = json.loads(line)
        (span,) = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
        for key in ("traceId", "spanId", "parentSpanId"):
            span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
        message = json_format.Parse(json.dumps(request), TracesData())
        found = message.resource_spans[0].scope_spans[0].spans[0]
        assert (len(found.trace_id), len(found.span_id)) == (16, 8)
        assert found.start_time_unix_nano <= found.end_time_unix_nano


def test_every_span_has_a_parent_but_the_workflow(told: Place) -> None:
    """One trace, ids that are never given twice, and children within it."""
    found = spans(told)
    ids = [span["spanId"] for span in found]
    assert len(set(ids)) == len(ids)
    assert len({span["traceId"] for span in found}) == 1
    roots = [span["name"] for span in found if not span["parentSpanId"]]
    assert roots == [told.json("status").envelope["_meta"]["workflow"]]
    assert {span["parentSpanId"] for span in found} - {""} <= set(ids)


def test_attempts_and_decisions_are_spans(half_way: Place) -> None:
    """What failed says why, what has not ended says so."""
    found = spans(half_way)
    named = {span["name"]: span for span in found}
    attempts = [(s["name"], s["status"]["code"]) for s in found if s["name"].startswith("att-")]
    assert sorted(attempts)[:5] == [
        ("att-0001", 1), ("att-0001", 1), ("att-0001", 2), ("att-0002", 2), ("att-0003", 1),
    ]  # fmt: skip
    assert attributes(named["amend-1 parameter_change"])["wfctl.decision"] == "approved"
    assert attributes(named["amend-1 parameter_change"])["wfctl.decided_by"] == "user:ada"
    assert attributes(named["amend-3 parameter_change"])["wfctl.open"] is True
    assert attributes(named["att-0004"])["wfctl.open"] is True
    assert all(len(span["events"]) <= _EVENTS for span in found)


def test_a_trace_of_a_longer_log_keeps_its_ids(half_way: Place, completed: Place) -> None:
    """What had ended is the same span in every later export."""
    ended = [s for s in spans(half_way) if "wfctl.open" not in attributes(s)]
    later = {span["spanId"]: span for span in spans(completed)}
    assert ended
    # Times and names are the stories'; the hashes are, too, as far as both go together.
    assert [later[span["spanId"]] for span in ended] == ended


def test_the_provenance_is_what_the_library_of_prov_reads(told: Place) -> None:
    """Read, written and read again it is the same; nothing is named that is not told of."""
    document = ProvDocument.deserialize(content=text_of(told, "prov"), format="json")
    again = ProvDocument.deserialize(content=document.serialize(format="json"), format="json")
    assert document == again
    raw = json.loads(exported(told, "prov"))
    things = {*raw["entity"], *raw.get("activity", {}), *raw["agent"]}
    ends = {"prov:entity", "prov:activity", "prov:agent", "prov:usedEntity", "prov:generatedEntity"}
    relations = [
        r for name, part in raw.items() if name[:3] in ("was", "use") for r in part.values()
    ]
    assert {v for r in relations for k, v in r.items() if k in ends} <= things


def test_the_provenance_says_who_made_what_from_what(completed: Place) -> None:
    """Plans are revised by amendments, which people decided; files come from attempts."""
    raw = json.loads(exported(completed, "prov"))
    revisions = [r["prov:generatedEntity"] for r in raw["wasDerivedFrom"].values()]
    assert revisions == ["wf:plan.2", "wf:plan.3"]
    roles = {
        (r["prov:activity"], r["prov:agent"], r["prov:role"]["$"])
        for r in raw["wasAssociatedWith"].values()
        if "prov:role" in r
    }
    assert ("wf:amend-1", "wf:user.ada", "wfctl:approved") in roles
    assert ("wf:amend-2", "wf:user.ada", "wfctl:rejected") in roles
    assert "wf:run.stage-2.att-0004" in raw["activity"]
    assert len(raw["wasGeneratedBy"]) >= 6


def test_runs_that_go_on_are_told_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    """One that took the place of a lost one began after those that were under way then."""
    story: list[tuple[Actor, Payload | str]] = [
        *((BOT, command) for command in done("stage-1", 1)),
        (BOT, attempt("stage-2", 1, "tmux")),
        (BOT, attempt("stage-3", 1, "tmux")),
        (RECONCILER, observed("stage-2", 1)),
        (RECONCILER, attempt("stage-2", 2, "tmux", recovers="att-0001")),
    ]
    place = Place(make_root(tmp_path / "root", story))
    began = ["stage-1.att-0001", "stage-2.att-0001", "stage-3.att-0001", "stage-2.att-0002"]
    assert list(json.loads(exported(place, "prov"))["activity"]) == [f"wf:run.{r}" for r in began]
    runs = [id_ for id_ in entities(place) if id_.startswith("#run-")]
    assert runs == [f"#run-{run}" for run in began]


def entities(place: Place, *more: str) -> dict[str, dict[str, Any]]:
    """Return the entities of a crate by their ids."""
    graph = json.loads(exported(place, "ro-crate", *more))["@graph"]
    assert len({entity["@id"] for entity in graph}) == len(graph)
    return {entity["@id"]: entity for entity in graph}


def crate_of(place: Place, folder: Path, *at: str) -> Path:
    """Write a crate with its main workflow and return its folder."""
    folder.mkdir()
    place.done("export", "ro-crate", str(folder / "ro-crate-metadata.json"), *at)
    place.done("export", "state", str(folder / "workflow-state.json"), *at)
    return folder


def judged(home: Path, crates: list[Path]) -> list[dict[str, Any]]:
    """Return the official validator's verdict on each crate."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.exports.crate_judge", *map(str, crates)],
        cwd=HERE, capture_output=True, text=True, check=False, timeout=240,
        env={**os.environ, "HOME": str(home)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    verdicts: list[dict[str, Any]] = json.loads(done.stdout)
    return verdicts


# Its story has a charge by hand, as logs of the versions before may have.
@pytest.mark.forged
@pytest.mark.slow
@pytest.mark.parametrize("called", first([named, str]), ids=["named", "numbered"])
@pytest.mark.parametrize("moments", first([[33, END], [2, 7, 14, 20, 37]]))
def test_the_official_validator_passes_a_crate_of_every_state(
    tmp_path: Path, moments: list[int], called: Callable[[str], str]
) -> None:
    """Every REQUIRED check: begun, under way, failed, lost, amended, invalidated, done."""
    place = Place(make_root(tmp_path / "root", STORIES["completed"], called))
    at = [place.version() if n == END else n for n in moments]
    crates = [crate_of(place, tmp_path / f"crate-{n}", "--at", str(n)) for n in at]
    before = tree(tmp_path)
    verdicts = judged(tmp_path, crates)
    assert [verdict["issues"] for verdict in verdicts] == [[]] * len(moments)
    assert all(verdict["checks"] >= 80 for verdict in verdicts)
    assert {k: v for k, v in tree(tmp_path).items() if k in before} == before


def test_a_crate_tells_of_each_attempt_and_each_decision(completed: Place) -> None:
    """One action an attempt; an amendment is an action of the person who decided it."""
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


def test_a_step_stands_where_its_stage_does_in_the_plan(told: Place) -> None:
    """Whatever the stage is called: its name is not taken apart."""
    stages = [stage["id"] for stage in told.done("status")["stages"]]
    steps = [e for i, e in entities(told).items() if i.startswith("#step-")]
    for step in steps:
        stage = step["@id"].removeprefix("#step-")
        assert step["position"] == str(stages.index(stage) + 1)


def test_a_stage_that_never_ran_is_no_tool_and_no_step(half_way: Place) -> None:
    """And nothing is null, or made up where the log says nothing."""
    found = entities(half_way)
    steps = [i for i in found if i.startswith("#step-")]
    assert steps == ["#step-stage-1", "#step-stage-2", "#step-stage-3"]
    assert not any("stage-5" in i for i in found if i.startswith("urn:"))
    assert all(value not in (None, "", []) for e in found.values() for value in e.values())
    assert "endTime" not in found["#run-stage-2.att-0004"]


KNOWN = "https://doi.org/10.1103/PhysRev.65.117"


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A stage that found two numbers and a figure, failed, was put right and found others."""
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


def test_a_crate_tells_a_number_with_its_error_and_what_it_is_compared_with(
    measured: Place,
) -> None:
    """Each is a value of its own that the number refers to; an error of 0 is an error."""
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


def test_a_crate_and_a_trail_have_the_numbers_of_an_attempt_that_failed(measured: Place) -> None:
    """They are results of the action that failed."""
    found = entities(measured)
    failed = found["#run-stage-1.att-0001"]
    assert failed["actionStatus"].endswith("FailedActionStatus")
    assert {"@id": "#number-stage-1.att-0001-T_c"} in failed["result"]
    assert found["#number-stage-1.att-0001-T_c"]["value"] == 2.1
    activity = json.loads(exported(measured, "prov"))["activity"]["wf:run.stage-1.att-0001"]
    assert "wfctl:number.T_c" in activity


def test_a_figure_is_an_image_in_a_crate(measured: Place) -> None:
    """A file all the same."""
    kinds = {e["name"]: e["@type"] for e in entities(measured).values() if "sha256" in e}
    assert kinds["stage-1/fit.svg"] == ["File", "ImageObject"]
    assert kinds["stage-1/fit.json"] == "File"


def test_a_table_has_an_error_of_nothing_as_a_number(measured: Place) -> None:
    """An empty cell says that nobody knows it."""
    rows = list(csv.DictReader(text_of(measured, "table").splitlines()))[:2]
    assert [float(row["metrics.n.error"]) for row in rows] == [0, 0]
    assert [float(row["metrics.T_c.error"]) for row in rows] == [0.3, 0.01]


@pytest.mark.slow
def test_a_crate_names_the_commit_of_the_code_that_a_run_used(measured: Place) -> None:
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
    """A loop over three rounds, whose points a stage wrote."""
    place = looped(tmp_path_factory.mktemp("rounds"), *(f"x\n{n}\n" for n in (7, 8, 9)))
    place.done("run")
    return place


@pytest.fixture(scope="module")
def by_an_agent(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A loop whose second round an agent chose, and which waits for the third."""
    place = looped(tmp_path_factory.mktemp("agent"), "x\n0\n", "x\n0\n", ask="agent")
    for points in ('[{"x": 7}]', '[{"x": 8}]'):
        assert place.json("run").code == 6
        place.done("round", "propose", "walk", "--points", points, "--reason", "lower")
    return place


@pytest.mark.slow
def test_a_crate_tells_of_each_round_what_led_to_it_and_what_it_came_to(in_rounds: Place) -> None:
    """Its object has the numbers of the round before, and the file that its stage wrote."""
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


@pytest.mark.slow
def test_a_trail_says_that_a_round_was_informed_by_the_one_before(
    in_rounds: Place, by_an_agent: Place
) -> None:
    """With the file that it used, or the agent that chose its points."""
    raw = json.loads(exported(in_rounds, "prov"))
    ends = [(r["prov:informed"], r["prov:informant"]) for r in raw["wasInformedBy"].values()]
    assert ("wf:round.walk.3", "wf:round.walk.2") in ends
    assert ("wf:run.next.att-0003", "wf:round.walk.3") in ends
    files = {id_: entity.get("wfctl:path") for id_, entity in raw["entity"].items()}
    used = {(r["prov:activity"], files[r["prov:entity"]]) for r in raw["used"].values()}
    assert ("wf:round.walk.2", "next/next.csv") in used
    raw = json.loads(exported(by_an_agent, "prov"))
    who = {r["prov:activity"]: r["prov:agent"] for r in raw["wasAssociatedWith"].values()}
    assert who["wf:round.walk.2"].startswith("wf:agent.")
    assert raw["activity"]["wf:round.walk.2"]["wfctl:reason"] == "lower"
    document = ProvDocument.deserialize(content=json.dumps(raw), format="json")
    assert document.serialize(format="json")


@pytest.mark.slow
def test_the_official_validator_passes_crates_with_numbers_figures_and_rounds(
    measured: Place, in_rounds: Place, by_an_agent: Place, tmp_path: Path
) -> None:
    """The rounds are complete or still empty, and chosen by a stage or an agent."""
    crates = [
        crate_of(measured, tmp_path / "numbers"),
        crate_of(in_rounds, tmp_path / "over"),
        crate_of(by_an_agent, tmp_path / "under-way"),
    ]
    assert "#round-walk-3" in entities(by_an_agent)
    assert [verdict["issues"] for verdict in judged(tmp_path, crates)] == [[]] * len(crates)
