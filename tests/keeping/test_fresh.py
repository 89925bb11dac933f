"""What changed after it was computed is seen, named, and never built upon in silence."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.built_once import built_once
from tests.cli.support import Place, tree
from tests.cli.terminal import agreed_to
from tests.keeping.support import made, stage

pytestmark = pytest.mark.slow


def _new_chain(folder: Path, *more: dict[str, Any], **plan: Any) -> Place:
    """Return a workflow of two completed stages, the first of which read an input."""
    first = stage(1, "cat ../in.txt > a.txt", inputs=["in.txt"], outputs=["stage-1/a.txt"])
    second = stage(
        2,
        "cat ../stage-1/a.txt > b.txt",
        depends_on=["stage-1"],
        inputs=["stage-1/a.txt"],
        outputs=["stage-2/b.txt"],
    )
    place = made(folder, first, second, *more, **plan)
    (place.path / "in.txt").write_text("1\n")
    assert place.call("run").code == 0
    return place


#: For tests that do not care when the workflow ran.
chain = built_once(_new_chain)


def test_what_nobody_touched_is_as_recorded(tmp_path: Path) -> None:
    """By a quick look and by a deep one, and neither writes anything."""
    place = chain(tmp_path)
    before = tree(place.path)
    for flags in ((), ("--deep",)):
        assert place.done("verify", *flags)["found"] == []
    assert place.done("status")["stale"] == {}
    assert tree(place.path) == before


def test_a_touched_file_with_the_same_bytes_is_as_recorded(tmp_path: Path) -> None:
    """As where it was restored from a backup."""
    place = chain(tmp_path)
    for name in ("in.txt", "stage-1/a.txt"):
        content = (place.path / name).read_bytes()
        (place.path / name).unlink()
        (place.path / name).write_bytes(content)
    assert place.done("verify")["found"] == []


@pytest.mark.parametrize("kind", ["changed", "missing"])
def test_a_changed_result_is_told_and_marks_what_was_computed_from_it(
    tmp_path: Path, kind: str
) -> None:
    """By verify, status and run, each by name."""
    place = chain(tmp_path)
    result = place.path / "stage-1/a.txt"
    result.unlink() if kind == "missing" else result.write_text("2\n")
    answer = place.json("verify")
    assert answer.code == 7
    found = [(one["stage"], one["what"], one["kind"]) for one in answer.data["found"]]
    assert found == [("stage-1", "result", kind), ("stage-2", "input", kind)]
    assert list(answer.data["stale"]) == ["stage-2"]
    status = place.done("status")
    assert [one["path"] for one in status["changed"]] == ["stage-1/a.txt"]
    assert "stage-1/a.txt" in place.call("status").out
    assert "stale: stage-2" in place.call("run").out


def test_a_stale_stage_is_told_with_the_reason_and_what_rests_on_it(tmp_path: Path) -> None:
    """A workflow is not called completed over it in silence."""
    place = chain(tmp_path)
    (place.path / "in.txt").write_text("2\n")
    stale = place.done("status")["stale"]
    assert list(stale) == ["stage-1", "stage-2"]
    assert re.match(r"in\.txt changed \d+ s after att-0001 read it \(", stale["stage-1"][0])
    assert stale["stage-2"] == ["stage-1, which it rests on, is stale"]
    answer = place.call("run")
    assert answer.code == 0
    assert "stale: stage-1 (in.txt changed" in answer.out
    (place.path / "in.txt").write_text("1\n")
    assert place.done("status")["stale"] == {}


@pytest.mark.parametrize(("policy", "proposed"), [("stop", 0), ("rerun", 1)])
def test_a_policy_stops_over_a_stale_stage(tmp_path: Path, policy: str, proposed: int) -> None:
    """With exit 6; a rerun is only proposed, as it takes a person."""
    place = chain(tmp_path, session_config={"stale": policy})
    (place.path / "in.txt").write_text("2\n")
    answer = place.json("run")
    assert (answer.code, answer.error["code"]) == (6, "stale_stages")
    assert place.types().count("amendment.proposed") == proposed


def test_nothing_is_built_on_a_changed_result_until_somebody_decides(tmp_path: Path) -> None:
    """Put back or adopted with a reason, it is built upon."""
    third = stage(
        3,
        "test -e ../../../../../../go && echo 3 > c.txt",
        depends_on=["stage-2"],
        outputs=["stage-3/c.txt"],
    )
    first = stage(1, "echo 1 > a.txt", outputs=["stage-1/a.txt"])
    second = stage(2, "echo 2 > b.txt", depends_on=["stage-1"], outputs=["stage-2/b.txt"])
    place = made(tmp_path, first, second, third)
    assert place.call("run").code == 6
    (place.path / "stage-2/b.txt").write_text("rounded\n")
    (place.path / "go").touch()
    place.done("stage", "retry", "stage-3", "--fix", "made go")
    answer = place.json("dispatch", "stage-3")
    assert (answer.code, answer.error["code"]) == (6, "changed_result")
    run = place.json("run")
    assert (run.code, "stage-2/b.txt has changed" in run.data["message"]) == (6, True)
    agreed_to(place.path, "verify", "stage-2", "--adopt", "--reason", "rounded for the paper")
    assert "changed by hand and adopted: stage-2/b.txt (rounded for the paper)" in place.log()
    assert place.call("run").code == 0
    assert place.done("verify")["found"] == []


@pytest.mark.long
def test_stale_stages_are_computed_again_in_one_step(tmp_path: Path) -> None:
    """One proposal for all of them, its impact first; the reason is what made them stale."""
    place = chain(tmp_path, consent="trust")
    (place.path / "in.txt").write_text("2\n")
    shown = place.done("rerun", "stage-1", "--from-here", "--dry-run")
    assert shown["impact"]["invalidated"] == ["stage-1", "stage-2"]
    assert place.types().count("amendment.proposed") == 0
    answer = place.call("rerun", "stage-1", "--from-here")
    assert answer.code == 0
    assert "amend-1 is proposed; invalidates stage-1, stage-2; keeps stage-1/" in answer.err
    (record,) = place.done("amend", "list")
    assert (record["stage"], record["also"]) == ("stage-1", ["stage-2"])
    assert record["reason"].startswith("stage-1: in.txt ")
    assert place.call("run").code == 0
    assert (place.path / "stage-2/b.txt").read_text() == "2\n"
    assert place.done("status")["stale"] == {}


def test_a_rerun_waits_for_a_person(tmp_path: Path) -> None:
    """Without one it is proposed, exit 6, and says which command agrees to it."""
    place = chain(tmp_path)
    assert place.json("rerun", "stage-1").code == 2
    answer = place.json("rerun", "stage-1", "stage-2", "--reason", "unsure")
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    assert "`wfctl amend approve amend-1` agrees to it" in answer.err
    (amendment,) = place.done("status")["pending_amendments"]
    assert place.done("amend", "show", amendment)["impact"]["invalidated"] == ["stage-1", "stage-2"]


def test_a_stage_that_was_never_begun_is_not_run_again(tmp_path: Path) -> None:
    """Nothing of it is there to be computed again."""
    place = made(tmp_path, stage(1, "true"), consent="trust")
    answer = place.json("rerun", "stage-1", "--reason", "so")
    assert (answer.code, answer.error["code"]) == (5, "invalid_amendment")


def _changed(folder: Path) -> Place:
    """Return a workflow of which the first result was edited by hand."""
    place = chain(folder)
    (place.path / "stage-1/a.txt").write_text("2\n")
    return place


def test_a_changed_result_fails_the_check_of_its_stage(tmp_path: Path) -> None:
    """And the stage that read it fails it for its input; a result put back passes."""
    place = _changed(tmp_path)
    for number, name in ((1, "result stage-1/a.txt"), (2, "input stage-1/a.txt")):
        answer = place.json("stage", "verify", f"stage-{number}")
        failed = [check["name"] for check in answer.data["checks"] if not check["passed"]]
        assert (answer.code, failed) == (7, [name])
    (place.path / "stage-1/a.txt").write_text("1\n")
    assert place.call("stage", "verify", "stage-1").code == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("command", [("rehydrate",), ("session", "start"), ("run",)])
def test_a_changed_result_is_recorded_once_by_whoever_looks(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """With its digest; put back, it is recorded that it is as it was."""
    place = _changed(tmp_path)
    for _ in range(2):
        assert place.call(*command).code in (0, 4)
    (event,) = place.done("events", "--type", "results.changed")
    (file,) = event["data"]["files"]
    assert (event["data"]["stage"], file["path"], file["kind"]) == (
        "stage-1",
        "stage-1/a.txt",
        "changed",
    )
    assert file["sha256"] == sha256(b"2\n").hexdigest()
    assert "stage-1: results are not as recorded: stage-1/a.txt (changed)" in place.log()
    (place.path / "stage-1/a.txt").write_text("1\n")
    place.done("rehydrate")
    assert place.done("events", "--type", "results.changed")[-1]["data"]["files"] == []


def test_a_briefing_names_what_changed_and_what_is_stale(tmp_path: Path) -> None:
    """By rehydrate and by the start of a session."""
    place = _changed(tmp_path)
    named = [("changed result", "stage-1/a.txt"), ("stale", "stage-2")]
    for briefing in (
        place.done("rehydrate"),
        place.done("session", "start")["briefing"],
    ):
        found = [(one["kind"], one["subjects"]) for one in briefing["contradictions"]]
        assert found == named


def test_audit_and_report_tell_of_a_changed_result(tmp_path: Path) -> None:
    """The audit ends with 7 until somebody decided, and keeps the decision."""
    place = _changed(tmp_path)
    place.done("rehydrate")
    answer = place.json("audit", "drift")
    assert answer.code == 7
    told = [(one["what"], one["kind"], one["file"]) for one in answer.data]
    assert told == [("detected", "changed result", "stage-1/a.txt")]
    assert "- changed result stage-1/a.txt: stage-1/a.txt changed " in place.call("report", "-").out
    agreed_to(place.path, "verify", "stage-1", "--adopt", "--reason", "rounded")
    answer = place.json("audit", "drift")
    assert (answer.code, [one["what"] for one in answer.data]) == (0, ["detected", "adopted"])
    assert "adopted: stage-1/a.txt, changed by hand: rounded" in place.call("report", "-").out


@pytest.mark.parametrize("command", [("replay", "--check"), ("fsck",)])
def test_what_looks_at_the_log_alone_says_so(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A clean log is no word on the results."""
    place = _changed(tmp_path)
    answer = place.call(*command)
    assert answer.code == 0
    assert "results and inputs of stages are looked at by `wfctl verify`" in answer.out


def test_why_explains_what_is_stale(tmp_path: Path) -> None:
    """By the name of the file, what read it, and when it changed."""
    place = _new_chain(tmp_path)
    assert place.done("why", "stage-1")["stale"] == []
    (place.path / "in.txt").write_text("2\n")
    (reason,) = place.done("why", "stage-1")["stale"]
    assert re.match(r"in\.txt changed \d+ s after att-0001 read it", reason)
    assert f"stale: {reason}; `wfctl rerun stage-1`" in place.call("why", "stage-1").out
    assert "stage-1, which it rests on, is stale" in place.call("why", "stage-2").out


def test_a_changed_result_is_adopted_by_a_person(tmp_path: Path) -> None:
    """Not by an agent, by whatever way."""
    place = _changed(tmp_path)
    agent = ("--actor", "agent:helper")
    answer = place.json("verify", "stage-1", "--adopt", "--reason", "fine", *agent)
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    output = {"path": "stage-1/a.txt", "size": 2, "sha256": sha256(b"2\n").hexdigest()}
    data = json.dumps({"stage": "stage-1", "outputs": [output], "reason": "so"})
    answer = place.json("append", "results.adopted", "--data", data, *agent)
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    agreed_to(place.path, "verify", "stage-1", "--adopt", "--reason", "fine")


def test_only_results_of_completed_stages_are_adopted(tmp_path: Path) -> None:
    """And never without a reason."""
    place = made(tmp_path, stage(1, "exit 1", outputs=["stage-1/a.txt"]))
    assert place.json("verify", "stage-1", "--adopt").code == 2
    data = '{"stage": "stage-1", "outputs": [], "reason": "so"}'
    answer = place.json("append", "results.adopted", "--data", data)
    assert (answer.code, answer.error["code"]) == (5, "missing_evidence")
