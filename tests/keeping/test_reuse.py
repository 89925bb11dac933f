"""wfctl can check the outputs of an earlier attempt and reuse them instead of computing again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.built_once import built_once
from tests.cli.support import Place
from tests.keeping.support import made, stage
from tests.rounds import first

pytestmark = pytest.mark.slow


@built_once
def counted(folder: Path, **plan: Any) -> Place:
    """Return a completed workflow whose first stage adds a line to a file at each computation."""
    count = folder / "count"
    command = f"echo x >> {count}; cat ../in.txt > a.txt"
    parameters = {"verify": "test $(cat stage-1/a.txt) -gt 0", **plan.pop("parameters", {})}
    first = stage(1, command, inputs=["in.txt"], outputs=["stage-1/a.txt"], parameters=parameters)
    second = stage(
        2, "cat ../stage-1/a.txt > b.txt", depends_on=["stage-1"], outputs=["stage-2/b.txt"],
        inputs=["stage-1/a.txt"],
    )  # fmt: skip
    place = made(folder, first, second, consent="trust", **plan)
    (place.path / "in.txt").write_text("5\n")
    assert place.call("run").code == 0
    return place


def runs(place: Place) -> int:
    """Return the number of computations of the first stage."""
    return len((place.path.parent / "count").read_text().split())


def amended(place: Place, *settings: str) -> None:
    """Change the first stage by an approved amendment."""
    sets = [word for one in settings for word in ("--set", one)]
    place.done("amend", "propose", "--stage", "stage-1", *sets, "--reason", "to see")
    newest = place.done("events", "--type", "amendment.proposed")[-1]
    place.done("amend", "approve", newest["data"]["amendment"])


@pytest.mark.few(1)
@pytest.mark.parametrize(("least", "computed"), [(4, 1), (6, 2)])
def test_amended_verify_command_checks_kept_outputs_first(
    tmp_path: Path, least: int, computed: int
) -> None:
    """If an amendment changes only the check, wfctl recomputes the outputs only if they fail it."""
    place = counted(tmp_path)
    amended(place, f"parameters.verify=test $(cat stage-1/a.txt) -gt {least}")
    answer = place.json("run")
    assert runs(place) == computed
    if computed == 1:
        assert answer.code == 0
        assert "outputs of att-0001 reused" in place.log()
        assert (place.path / "stage-1.v1/a.txt").read_text() == "5\n"
        assert place.types().count("attempt.started") == 2
    else:
        assert "the kept outputs of att-0001 do not pass the checks: verify" in place.log()
    assert place.call("fsck").code == 0
    assert place.call("replay", "--check").code == 0


def test_rerun_with_the_same_inputs_offers_kept_outputs(tmp_path: Path) -> None:
    """`stage reuse` takes the earlier outputs, but refuses if an input has changed."""
    place = counted(tmp_path)
    place.done("rerun", "stage-1", "--reason", "once more")
    assert "`wfctl stage reuse stage-1` takes the outputs" in place.call("status").out
    (place.path / "in.txt").write_text("6\n")
    answer = place.json("stage", "reuse", "stage-1")
    assert (answer.code, answer.error["code"]) == (5, "nothing_to_reuse")
    assert "in.txt" in answer.error["message"]
    (place.path / "in.txt").write_text("5\n")
    place.done("stage", "reuse", "stage-1", "--dry-run")
    place.done("stage", "reuse", "stage-1")
    assert place.done("show", "stage-1")["status"] == "post_processing"
    assert place.call("run").code == 0
    assert runs(place) == 1
    assert place.done("show", "stage-1")["reused"] == "att-0001"
    assert place.done("status")["stale"] == {}
    assert "the outputs of att-0001" in place.call("show", "stage-1").out
    assert "nothing was run" in place.call("report", "-").out
    assert "reused, because it had the same inputs" in place.call("why", "stage-1").out
    (place.path / "in.txt").write_text("6\n")
    assert "stage-1" in place.done("status")["stale"]


@pytest.mark.long
def test_changed_kept_output_is_not_reused(tmp_path: Path) -> None:
    """`stage reuse` refuses an output whose digest differs from the log, and keeps the file."""
    place = counted(tmp_path)
    place.done("rerun", "stage-1", "--reason", "once more")
    (place.path / "stage-1/a.txt").write_text("7\n")
    answer = place.json("stage", "reuse", "stage-1")
    assert (answer.code, answer.error["code"]) == (5, "nothing_to_reuse")
    assert (place.path / "stage-1/a.txt").read_text() == "7\n"
    assert place.call("run").code == 0
    assert (place.path / "stage-1.v1/a.txt").read_text() == "7\n"


@pytest.mark.long
@pytest.mark.parametrize(
    ("policy", "computed"), first([("offer", 2), ("take", 1), ("never", 2)], 2)
)
def test_reuse_policy_decides_about_kept_outputs(
    tmp_path: Path, policy: str, computed: int
) -> None:
    """The policy `take` reuses earlier outputs; `offer` and `never` compute them again.

    `offer` also prints the command that reuses the outputs.
    """
    place = counted(tmp_path, session_config={"reuse": policy})
    place.done("rerun", "stage-1", "--reason", "once more")
    answer = place.call("run")
    assert answer.code == 0
    assert ("wfctl stage reuse stage-1" in answer.err) == (policy == "offer")
    assert runs(place) == computed


@pytest.mark.long
def test_restored_definition_reuses_the_outputs_of_its_attempt(tmp_path: Path) -> None:
    """If an amendment restores an old parameter value, wfctl reuses that value's outputs."""
    place = counted(tmp_path, parameters={"x": 1}, session_config={"reuse": "take"})
    for value in (2, 1):
        amended(place, f"parameters.x={value}")
        assert place.call("run").code == 0
    assert runs(place) == 2
    (event,) = [
        one for one in place.done("events", "--type", "outputs.reused")
        if one["data"]["stage"] == "stage-1"
    ]  # fmt: skip
    assert event["data"]["attempt"] == "att-0001"
    assert json.loads((place.path / "stage-1/a.txt").read_text()) == 5
