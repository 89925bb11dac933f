"""wfctl detects results and inputs that changed after a computation, before any stage uses them."""

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
    """Return a workflow of two completed stages; the first stage reads an input file."""
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


#: The workflow is computed once and copied for each test. Tests of its times use `_new_chain`.
chain = built_once(_new_chain)


def test_verify_finds_nothing_in_unchanged_files(tmp_path: Path) -> None:
    """`verify` and `verify --deep` report no finding and write no file."""
    place = chain(tmp_path)
    before = tree(place.path)
    for flags in ((), ("--deep",)):
        assert place.done("verify", *flags)["found"] == []
    assert place.done("status")["stale"] == {}
    assert tree(place.path) == before


def test_rewritten_file_with_the_same_content_is_unchanged(tmp_path: Path) -> None:
    """`verify` reports nothing if an input or result was deleted and restored unchanged."""
    place = chain(tmp_path)
    for name in ("in.txt", "stage-1/a.txt"):
        content = (place.path / name).read_bytes()
        (place.path / name).unlink()
        (place.path / name).write_bytes(content)
    assert place.done("verify")["found"] == []


@pytest.mark.parametrize("kind", ["changed", "missing"])
def test_changed_result_makes_later_stages_stale(tmp_path: Path, kind: str) -> None:
    """Verify, status and run name the changed or missing file and the stale stage."""
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


def test_stale_stage_is_reported_with_its_reason_and_dependents(tmp_path: Path) -> None:
    """If an input changed, `status` and `run` report the stage and its dependents as stale."""
    place = chain(tmp_path)
    (place.path / "in.txt").write_text("2\n")
    stale = place.done("status")["stale"]
    assert list(stale) == ["stage-1", "stage-2"]
    assert re.match(r"in\.txt changed \d+ s after att-0001 read it \(", stale["stage-1"][0])
    assert stale["stage-2"] == ["stage-1, on which the stage depends, is stale"]
    answer = place.call("run")
    assert answer.code == 0
    assert "stale: stage-1 (in.txt changed" in answer.out
    (place.path / "in.txt").write_text("1\n")
    assert place.done("status")["stale"] == {}


@pytest.mark.parametrize(("policy", "proposed"), [("stop", 0), ("rerun", 1)])
def test_stale_policy_stops_the_run(tmp_path: Path, policy: str, proposed: int) -> None:
    """With the policy `stop` or `rerun`, a stale stage stops the run with exit code 6.

    The policy `rerun` also proposes to compute the stage again.
    """
    place = chain(tmp_path, session_config={"stale": policy})
    (place.path / "in.txt").write_text("2\n")
    answer = place.json("run")
    assert (answer.code, answer.error["code"]) == (6, "stale_stages")
    assert place.types().count("amendment.proposed") == proposed


def test_changed_result_blocks_dependent_stages_until_a_decision(tmp_path: Path) -> None:
    """A dependent stage cannot start until a person adopts the changed result with a reason."""
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
def test_rerun_from_here_reruns_all_stale_stages(tmp_path: Path) -> None:
    """One amendment invalidates all stale stages, and its reason names the changed input."""
    place = chain(tmp_path, consent="trust")
    (place.path / "in.txt").write_text("2\n")
    shown = place.done("rerun", "stage-1", "--from-here", "--dry-run")
    assert shown["impact"]["invalidated"] == ["stage-1", "stage-2"]
    assert place.types().count("amendment.proposed") == 0
    answer = place.call("rerun", "stage-1", "--from-here")
    assert answer.code == 0
    assert "amend-1 is proposed; invalidates stage-1, stage-2; moves stage-1/" in answer.err
    (record,) = place.done("amend", "list")
    assert (record["stage"], record["also"]) == ("stage-1", ["stage-2"])
    assert record["reason"].startswith("stage-1: in.txt ")
    assert place.call("run").code == 0
    assert (place.path / "stage-2/b.txt").read_text() == "2\n"
    assert place.done("status")["stale"] == {}


def test_rerun_waits_for_an_approval(tmp_path: Path) -> None:
    """`wfctl rerun` proposes an amendment, exits with 6 and prints the command for the approval."""
    place = chain(tmp_path)
    assert place.json("rerun", "stage-1").code == 2
    answer = place.json("rerun", "stage-1", "stage-2", "--reason", "unsure")
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    assert "`wfctl amend approve amend-1` approves it" in answer.err
    (amendment,) = place.done("status")["pending_amendments"]
    assert place.done("amend", "show", amendment)["impact"]["invalidated"] == ["stage-1", "stage-2"]


def test_rerun_of_a_stage_that_never_ran_is_refused(tmp_path: Path) -> None:
    """`wfctl rerun` exits with 5, because the stage has no computation to repeat."""
    place = made(tmp_path, stage(1, "true"), consent="trust")
    answer = place.json("rerun", "stage-1", "--reason", "so")
    assert (answer.code, answer.error["code"]) == (5, "invalid_amendment")


def _changed(folder: Path) -> Place:
    """Return a workflow whose first result was edited by hand."""
    place = chain(folder)
    (place.path / "stage-1/a.txt").write_text("2\n")
    return place


def test_changed_result_fails_verification(tmp_path: Path) -> None:
    """`stage verify` fails for the changed stage and the stage that read its result."""
    place = _changed(tmp_path)
    for number, name in ((1, "result stage-1/a.txt"), (2, "input stage-1/a.txt")):
        answer = place.json("stage", "verify", f"stage-{number}")
        failed = [check["name"] for check in answer.data["checks"] if not check["passed"]]
        assert (answer.code, failed) == (7, [name])
    (place.path / "stage-1/a.txt").write_text("1\n")
    assert place.call("stage", "verify", "stage-1").code == 0


@pytest.mark.few(1)
@pytest.mark.parametrize("command", [("rehydrate",), ("session", "start"), ("run",)])
def test_changed_result_is_recorded_once(tmp_path: Path, command: tuple[str, ...]) -> None:
    """wfctl records one event with the new digest, and one more when the file is restored."""
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


def test_briefing_names_changed_results_and_stale_stages(tmp_path: Path) -> None:
    """`rehydrate` and `session start` list the changed result and the stale stage."""
    place = _changed(tmp_path)
    named = [("changed result", "stage-1/a.txt"), ("stale", "stage-2")]
    for briefing in (
        place.done("rehydrate"),
        place.done("session", "start")["briefing"],
    ):
        found = [(one["kind"], one["subjects"]) for one in briefing["contradictions"]]
        assert found == named


def test_audit_and_report_show_changed_results(tmp_path: Path) -> None:
    """`audit drift` exits with 7 until a person adopts the changed result, and then with 0."""
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
def test_log_checks_refer_to_verify_for_results(tmp_path: Path, command: tuple[str, ...]) -> None:
    """`replay --check` and `fsck` do not read results, and refer the user to `wfctl verify`."""
    place = _changed(tmp_path)
    answer = place.call(*command)
    assert answer.code == 0
    assert "`wfctl verify` checks the results and inputs of stages" in answer.out


def test_why_explains_a_stale_stage(tmp_path: Path) -> None:
    """`wfctl why` names the changed input, the attempt that read it, and the time of the change."""
    place = _new_chain(tmp_path)
    assert place.done("why", "stage-1")["stale"] == []
    (place.path / "in.txt").write_text("2\n")
    (reason,) = place.done("why", "stage-1")["stale"]
    assert re.match(r"in\.txt changed \d+ s after att-0001 read it", reason)
    assert f"stale: {reason}; `wfctl rerun stage-1`" in place.call("why", "stage-1").out
    assert "stage-1, on which the stage depends, is stale" in place.call("why", "stage-2").out


def test_only_a_person_adopts_a_changed_result(tmp_path: Path) -> None:
    """wfctl refuses an agent's `verify --adopt`, and an agent's raw event of an adoption."""
    place = _changed(tmp_path)
    agent = ("--actor", "agent:helper")
    answer = place.json("verify", "stage-1", "--adopt", "--reason", "fine", *agent)
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    output = {"path": "stage-1/a.txt", "size": 2, "sha256": sha256(b"2\n").hexdigest()}
    data = json.dumps({"stage": "stage-1", "outputs": [output], "reason": "so"})
    answer = place.json("append", "results.adopted", "--data", data, *agent)
    assert (answer.code, answer.error["code"]) == (6, "needs_consent")
    agreed_to(place.path, "verify", "stage-1", "--adopt", "--reason", "fine")


def test_adoption_requires_a_completed_stage_and_a_reason(tmp_path: Path) -> None:
    """wfctl refuses to adopt a result without a reason, or of a stage that is not completed."""
    place = made(tmp_path, stage(1, "exit 1", outputs=["stage-1/a.txt"]))
    assert place.json("verify", "stage-1", "--adopt").code == 2
    data = '{"stage": "stage-1", "outputs": [], "reason": "so"}'
    answer = place.json("append", "results.adopted", "--data", data)
    assert (answer.code, answer.error["code"]) == (5, "missing_evidence")


def _deleted(folder: Path, *more: dict[str, Any], **plan: Any) -> Place:
    """Return a workflow whose first result a person deleted, with the deletion recorded."""
    place = chain(folder, *more, **plan)
    (place.path / "stage-1/a.txt").unlink()
    assert "stage-1 --adopt" in place.call("verify").out
    shown = agreed_to(place.path, "verify", "stage-1", "--adopt", "--reason", "no room")
    is_asked = plan.get("consent") != "trust"
    assert (sha256(b"1\n").hexdigest() in shown) == is_asked
    return place


def test_deleted_result_is_recorded_with_its_digest(tmp_path: Path) -> None:
    """`status`, `results` and `report` show the deletion and the digest of the deleted file.

    Stages that read the file do not become stale.
    """
    place = _deleted(tmp_path, results=["stage-1/a.txt"])
    assert place.done("verify", "--deep") == {"deep": True, "found": [], "stale": {}}
    (event,) = place.done("events", "--type", "results.adopted")
    recorded = {"path": "stage-1/a.txt", "size": 2, "sha256": sha256(b"1\n").hexdigest()}
    assert (event["data"]["outputs"], event["data"]["deleted"]) == ([], [recorded])
    said = f"stage-1/a.txt: recorded as deleted on {event['occurred_at'][:10]}"
    digest = f"SHA-256 {recorded['sha256']}"
    for words in (("status",), ("results",), ("report", "-")):
        text = place.call(*words).out
        assert said in text, words
        assert digest in text, words
    assert "deleted, with the recorded digest still valid: stage-1/a.txt (no room)" in place.log()
    status = place.done("status")
    assert (status["stale"], status["changed"]) == ({}, [])
    for _ in range(2):
        place.done("rehydrate")
    assert "results.changed" not in place.types()
    answer = place.json("audit", "drift")
    assert (answer.code, [one["kind"] for one in answer.data]) == (0, ["deleted result"])
    assert place.call("replay", "--check").code == place.call("fsck", "--protocol").code == 0


def test_restored_result_is_compared_with_its_digest(tmp_path: Path) -> None:
    """`verify` accepts a restored file with the recorded content, and reports other content."""
    place = _deleted(tmp_path)
    (place.path / "stage-1/a.txt").write_text("1\n")
    assert place.done("verify", "--deep")["found"] == []
    (place.path / "stage-1/a.txt").write_text("2\n")
    found = place.json("verify").data["found"]
    assert {(one["path"], one["kind"]) for one in found} == {("stage-1/a.txt", "changed")}


@pytest.mark.long
def test_stage_that_reads_a_deleted_result_is_not_dispatched(tmp_path: Path) -> None:
    """wfctl names the deleted file; after the file is computed again, the stage can run."""
    place = _deleted(tmp_path, consent="trust")
    place.done("rerun", "stage-2", "--reason", "again")
    answer = place.json("dispatch", "stage-2")
    assert (answer.code, answer.error["code"]) == (6, "changed_result")
    assert "stage-1/a.txt was recorded as deleted on 2" in answer.error["message"]
    assert "--adopt" not in answer.error["message"]
    run = place.json("run")
    assert (run.code, "stage-1/a.txt was recorded as deleted" in run.data["message"]) == (6, True)
    place.done("rerun", "stage-1", "--reason", "needed again")
    assert place.call("run").code == 0
    assert (place.path / "stage-2/b.txt").read_text() == "1\n"
    assert "recorded as deleted" not in place.call("status").out


def test_deleted_result_keeps_its_metric(tmp_path: Path) -> None:
    """An adoption reads the metric of a changed file again, and keeps that of a deleted file."""
    numbers = {"metrics": {"a": "a.json#/n", "b": "b.json#/n"}}
    both = ["stage-1/a.json", "stage-1/b.json"]
    command = "echo '{\"n\": 1}' > a.json; echo '{\"n\": 2}' > b.json"
    first = stage(1, command, outputs=both)
    first["parameters"] |= numbers
    place = made(tmp_path, first)
    assert place.call("run").code == 0
    (place.path / both[0]).unlink()
    (place.path / both[1]).write_text('{"n": 3}')
    agreed_to(place.path, "verify", "stage-1", "--adopt", "--reason", "so")
    (event,) = place.done("events", "--type", "results.adopted")
    found = {one["name"]: one["value"] for one in event["data"]["metrics"]}
    assert found == {"a": 1, "b": 3}


def test_only_recorded_results_can_be_recorded_as_deleted(tmp_path: Path) -> None:
    """wfctl refuses to record a deletion of a file that is no result, or with a wrong digest."""
    place = chain(tmp_path, consent="trust")
    for path, digest in (("stage-1/a.txt", "0" * 64), ("in.txt", sha256(b"1\n").hexdigest())):
        gone = [{"path": path, "size": 2, "sha256": digest}]
        data = json.dumps({"stage": "stage-1", "outputs": [], "deleted": gone, "reason": "so"})
        answer = place.json("append", "results.adopted", "--data", data)
        assert (answer.code, answer.error["code"]) == (5, "missing_evidence")
