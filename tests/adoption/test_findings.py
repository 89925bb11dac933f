"""Each kind of finding that `wfctl import` reports, on minimal files that cause it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adoption import support as s
from tests.cli.support import Place

TO_COMPLETED = ["ready", "preparing", "post_processing", "completed"]


def steps(stage: str, *statuses: str) -> list[str]:
    """Return log lines that set a stage to each of the given statuses in order."""
    return [f"{stage} (S): status -> {status}" for status in statuses]


def done(number: int = 1, **more: Any) -> dict[str, Any]:
    """Return a completed stage."""
    times = {"started_at": "2026-03-31T10:01:00Z", "completed_at": "2026-03-31T10:03:00Z"}
    return s.stage(number, "completed", **{**times, **more})


def found(
    folder: Path, state: Any, log: str, kind: str, *options: str
) -> list[tuple[str, int, str]]:
    """Write files, and return the findings of one kind."""
    answer = s.import_(s.write_files(folder / "w", state, log), "--dry-run", *options)
    assert answer.code == 0, answer
    return s.of_kind(answer, kind)


def test_workflow_that_follows_the_protocol_has_no_findings(tmp_path: Path) -> None:
    """Exact times and valid transitions cause no finding."""
    log = s.log_of("Workflow created: melt. 1 stages.", *steps("stage-1", *TO_COMPLETED))
    answer = s.import_(s.write_files(tmp_path / "w", s.document(done()), log), "--dry-run")
    assert answer.data["findings"] == []


@pytest.mark.parametrize(
    ("statuses", "line", "evidence"),
    [
        (["ready", "preparing", "completed"], 3, "preparing (line 2) -> completed"),
        (["ready", "completed"], 2, "ready (line 1) -> completed"),
        ([*TO_COMPLETED, "post_processing"], 5, "completed (line 4) -> post_processing"),
        (["running"], 1, "pending -> running"),
    ],
)
def test_illegal_transition_is_a_finding(
    statuses: list[str], line: int, evidence: str, tmp_path: Path
) -> None:
    """The finding names the old and the new status of the stage with their log lines."""
    log = s.log_of(*steps("stage-1", *statuses))
    assert (s.LOG, line, evidence) in found(tmp_path, s.document(), log, "illegal_transition")


def test_retry_makes_a_failed_stage_ready_but_not_running(tmp_path: Path) -> None:
    """A step from failed through retry to preparing is valid; to running is a finding."""
    start = steps("stage-1", "ready", "preparing", "failed")
    again = "stage-1: retry #1 after fix: more memory"
    log = s.log_of(
        *start, again, *steps("stage-1", "preparing", "failed"), again, *steps("stage-1", "running")
    )
    assert found(tmp_path, s.document(), log, "illegal_transition") == [
        (s.LOG, 8, "failed (line 6) -> running")
    ]


def test_status_that_contradicts_the_log_is_a_finding(tmp_path: Path) -> None:
    """The state says completed, but the last status in the log is ready."""
    log = s.log_of(*steps("stage-1", "ready"))
    claims = found(tmp_path, s.document(done()), log, "missing_step")
    assert [evidence for _, _, evidence in claims] == [
        "completed in the state, ready in the log (line 1)"
    ]


def test_stage_readied_before_its_dependency_completed_is_a_finding(tmp_path: Path) -> None:
    """The finding names the dependency and its status at that time."""
    log = s.log_of(*steps("stage-1", "ready"), *steps("stage-2", "ready"))
    state = s.document(s.stage(1, "ready"), s.stage(2, "ready"))
    assert found(tmp_path, state, log, "missing_step") == [
        (s.LOG, 2, "ready although stage-1 was ready")
    ]


def test_remote_job_without_running_status_is_a_finding(tmp_path: Path) -> None:
    """A stage with a remote job must have the status running before it completes."""
    profiles = {"hpc": {"type": "remote", "batch_type": "Slurm"}}
    state = s.document(done(backend="hpc"), backend_profiles=profiles)
    log = s.log_of(*steps("stage-1", *TO_COMPLETED))
    assert [line for _, line, _ in found(tmp_path, state, log, "missing_step")] == [3]


def test_workflow_completed_before_its_stages_is_a_finding(tmp_path: Path) -> None:
    """The log and the state both call the workflow completed, and each causes one finding."""
    state = s.document(s.stage(1), workflow_status="completed")
    log = s.log_of("Workflow completed. All 1 stages verified.")
    assert [file for file, _, _ in found(tmp_path, state, log, "missing_step")] == [s.LOG, s.STATE]


def test_repeated_and_unknown_statuses_are_findings(tmp_path: Path) -> None:
    """A repeated status and an unknown status in the log cause one finding each."""
    log = s.log_of(*steps("stage-1", "ready", "ready", "finished"))
    answer = s.import_(s.write_files(tmp_path / "w", s.document(s.stage(1, "ready")), log))
    assert s.of_kind(answer, "repeated_status") == [
        (s.LOG, 2, "the status is ready since line 1 already")
    ]
    assert s.of_kind(answer, "unknown_status") == [(s.LOG, 3, "finished")]


def test_line_about_an_unknown_stage_is_a_finding(tmp_path: Path) -> None:
    """A log line about a stage that is not in the state is reported and still imported."""
    log = s.log_of(*steps("stage-7", "ready"))
    assert [line for _, line, _ in found(tmp_path, s.document(), log, "unknown_stage")] == [1]


def test_stage_skipped_without_an_amendment_is_a_finding(tmp_path: Path) -> None:
    """A skipped stage causes a finding unless an amendment of the workflow skips it."""
    log = s.log_of(*steps("stage-1", "skipped"))
    state = s.document(s.stage(1, "skipped"))
    assert found(tmp_path, state, log, "unamended_change") == [
        (s.LOG, 1, "pending -> skipped needs an amendment")
    ]
    record = {"id": "amend-1", "type": "stage_skip", "stage_id": "stage-1"}
    agreed = s.document(s.stage(1, "skipped"), amendments=[record])
    assert found(tmp_path, agreed, log, "unamended_change") == []


@pytest.mark.parametrize(("count", "kind"), [(0, "uncounted_retry"), (3, "unlogged_retry")])
def test_retry_count_that_contradicts_the_log_is_a_finding(
    count: int, kind: str, tmp_path: Path
) -> None:
    """A retry count above or below the number of retries in the log causes a finding."""
    lines = steps("stage-1", "ready", "preparing", "failed")
    log = s.log_of(*lines, "stage-1: retry #1 after fix: more memory")
    state = s.document(s.stage(1, "ready", retry_count=count))
    evidence = f"retry_count is {count}, but the log has 1 retries"
    assert [e[: len(evidence)] for _, _, e in found(tmp_path, state, log, kind)] == [evidence]


def test_launch_time_older_than_the_attempt_is_a_finding(tmp_path: Path) -> None:
    """After a retry, launched_at is still the time of the first attempt."""
    process = {"submission_json": "stage-1/submission.json", "launched_at": "2026-03-31T10:02:00Z"}
    state = s.document(s.stage(1, "running", running_process=process, retry_count=1))
    once = ["ready", "preparing", "running", "failed"]
    log = s.log_of(*steps("stage-1", *once, "ready", "preparing", "running"))
    assert [e for _, _, e in found(tmp_path, state, log, "stale_launch")] == [
        "2026-03-31T10:02:00Z, but the log has the launch at 2026-03-31T10:06:00Z (line 7)"
    ]


def test_missing_output_of_a_completed_stage_is_a_finding(tmp_path: Path) -> None:
    """A missing output is a finding for a completed stage, but not for a pending one."""
    folder = tmp_path / "w"
    (folder / "stage-1").mkdir(parents=True)
    (folder / "stage-1" / "a.txt").write_text("a", "utf-8")
    log = s.log_of(*steps("stage-1", *TO_COMPLETED))
    state = s.document(done(outputs=["stage-1/a.txt", "stage-1/b.txt"]), s.stage(2, outputs=["c"]))
    missing = found(tmp_path, state, log, "missing_output")
    assert [evidence for _, _, evidence in missing] == ["stage-1/b.txt"]


def test_inconsistent_session_numbers_are_findings(tmp_path: Path) -> None:
    """A gap in the log's session numbers or a wrong count in the state is a finding."""
    log = s.log_of("Session 1 started. Workflow: melt", "Session 3 started. Workflow: melt")
    state = s.document(session_config={"session_count": 2})
    gaps = found(tmp_path, state, log, "session_gap")
    assert [evidence for _, _, evidence in gaps] == [
        "session 3 follows 1",
        "session_count is 2, but the last session in the log is 3",
    ]


def test_imprecise_and_unordered_times_are_findings(tmp_path: Path) -> None:
    """Log times that are missing, imprecise, out of order or in the future are findings."""
    log = (
        "[2026-03-31 10:00] a\n[2026-03-31T10:05:00] b\n[2026-03-31T09:00:00Z] c\n"
        "[2999-01-01T00:00:00Z] d\njust text\n"
    )
    answer = s.import_(s.write_files(tmp_path / "w", s.document(), log), "--utc-offset", "Z")
    places = {
        kind: [line for _, line, _ in s.of_kind(answer, kind)]
        for kind in ("no_seconds", "no_offset", "out_of_order", "future_time", "undated")
    }
    assert places == {
        "no_seconds": [1],
        "no_offset": [1],
        "out_of_order": [3],
        "future_time": [4],
        "undated": [5],
    }


def test_times_in_the_state_are_checked_like_those_in_the_log(tmp_path: Path) -> None:
    """Times in the state that are unordered, or lack seconds or an offset, are findings."""
    stage = done(started_at="2026-03-31 11:00", completed_at="2026-03-31T10:59:00Z")
    state = s.document(stage, created="soon")
    log = s.log_of(*steps("stage-1", *TO_COMPLETED))
    answer = s.import_(s.write_files(tmp_path / "w", state, log), "--utc-offset", "Z")
    told = set(s.kinds(answer))
    assert {"no_seconds", "no_offset", "out_of_order", "undated"} <= told


def test_identical_times_of_dependent_steps_are_a_finding(tmp_path: Path) -> None:
    """A stage cannot start in the same second in which its dependency completed."""
    same = "2026-03-31T10:03:00Z"
    process = {"submission_json": "stage-2/submission.json", "launched_at": same}
    state = s.document(done(), s.stage(2, "running", running_process=process))
    log = s.log_of(*steps("stage-1", *TO_COMPLETED))
    log += "".join(
        f"[{same}] {line}\n" for line in steps("stage-2", "ready", "preparing", "running")
    )
    answer = s.import_(s.write_files(tmp_path / "w", state, log))
    lines = (tmp_path / "w" / ".wfctl" / "imported" / s.STATE).read_text("utf-8").splitlines()
    launched = next(n for n, line in enumerate(lines, 1) if "launched_at" in line)
    places = [(file, line) for file, line, _ in s.of_kind(answer, "identical_times")]
    assert places == [(s.LOG, 7), (s.STATE, launched)]


def test_unknown_and_missing_fields_are_findings(tmp_path: Path) -> None:
    """Unknown and missing fields of the workflow or of a stage are findings."""
    stage = s.stage(1, "running", verification={"ok": True}, running_process={"pid": 1})
    log = s.log_of(*steps("stage-1", "ready", "preparing", "running"))
    answer = s.import_(s.write_files(tmp_path / "w", s.document(stage, owner="me"), log))
    unknown = [evidence for _, _, evidence in s.of_kind(answer, "unknown_field")]
    assert unknown == ['owner: "me"', 'verification: {"ok": true}', "pid: 1"]
    assert [e for _, _, e in s.of_kind(answer, "missing_field")] == ["submission_json"]


def test_amended_definition_is_no_finding(tmp_path: Path) -> None:
    """Two parameters changed between commits, and only the one without an amendment is reported."""
    folder = tmp_path / "w"
    record = {"id": "amend-1", "type": "parameter_change", "stage_id": "stage-1"}
    changes = {"parameters": {"dt": {"old": 0.005, "new": 0.002}}}
    before = s.document(s.stage(1, parameters={"dt": 0.005}), s.stage(2, parameters={"n": 1}))
    after = s.document(
        s.stage(1, parameters={"dt": 0.002}),
        s.stage(2, parameters={"n": 2}),
        amendments=[{**record, "changes": changes}],
        version=2,
    )
    s.committed(folder, [s.write_files(tmp_path / "before", before)])
    s.write_files(folder, after)
    changed = s.of_kind(s.import_(folder, "--git", "--dry-run"), "unamended_change")
    assert [evidence for _, _, evidence in changed] == ["parameters.n: 1 -> 2"]


def test_unreadable_committed_version_is_reported_and_skipped(tmp_path: Path) -> None:
    """The finding names the commit, and the other versions are imported."""
    good, broken = tmp_path / "good", tmp_path / "broken"
    s.write_files(good, s.document())
    s.write_files(broken, '{"workflow_id": ')
    folder = s.committed(tmp_path / "w", [good, broken])
    s.write_files(folder, s.document(s.stage(1, "ready")))
    answer = s.import_(folder, "--git")
    assert len(s.of_kind(answer, "unreadable_version")) == 1
    assert answer.data["versions"] == 2


def test_findings_are_recorded_with_the_import(tmp_path: Path) -> None:
    """The first event of the log contains the findings that the import command returned."""
    folder = s.write_files(tmp_path / "w", s.document(owner="me"), "no time\n")
    told = s.import_(folder).data["findings"]
    first = Place(folder).done("events", "--type", "workflow.imported")[0]
    assert first["data"]["findings"] == told
    assert {"undated", "unknown_field"} == {finding["kind"] for finding in told}


def test_times_without_offset_use_the_offset_of_the_state(tmp_path: Path) -> None:
    """If `created` shows the time of the first line, its offset applies to the log."""
    state = s.document(created="2026-03-31T10:00:00+02:00")
    root = s.imported(s.write_files(tmp_path / "w", state, "[2026-03-31 10:00] hello\n"))
    line = root.done("events", "--type", "line.imported")[0]
    assert line["occurred_at"] == "2026-03-31T08:00:00.000000Z"


def test_leftover_and_missing_parts_of_a_workflow_are_findings(tmp_path: Path) -> None:
    """A leftover process, a missing report and a missing machine file are findings."""
    process = {"submission_json": "x", "launched_at": "2026-03-31T10:00:00Z", "tmux_session": "t1"}
    stages = [
        s.stage(1, "completed", running_process=process),
        s.stage(2, "running", running_process=process),
        s.stage(3, "failed", running_process=None),
    ]
    profiles = {
        "here": {"type": "local", "config_path": "machines/here.json"},
        "hpc": {"type": "remote", "config_path": "machines/hpc.json"},
    }
    log = s.log_of("Workflow completed. Report: docs/report.md")
    folder = s.write_files(tmp_path / "w", s.document(*stages, backend_profiles=profiles), log)
    (folder / "machines").mkdir()
    (folder / "machines" / "here.json").write_text("{}")
    answer = s.import_(folder, "--dry-run")
    assert [text for *_, text in s.of_kind(answer, "left_process")] == [
        "the stage is completed, but running_process still names t1"
    ]
    assert [text for *_, text in s.of_kind(answer, "missing_machine")] == ["machines/hpc.json"]
    assert s.of_kind(answer, "missing_report") == [("progress.log", 1, "docs/report.md")]
    (folder / "docs").mkdir()
    (folder / "docs" / "report.md").write_text("found")
    assert s.of_kind(s.import_(folder, "--dry-run"), "missing_report") == []


def test_restarted_history_is_one_finding(tmp_path: Path) -> None:
    """A git history in which the workflow restarted causes only one finding."""
    names = [s.STATES[0], s.STATES[1]]
    folder = s.committed(tmp_path / "w", [s.history(name) for name in names])
    answer = s.import_(folder, "--git", "--dry-run")
    [(file, _, evidence)] = s.of_kind(answer, "begun_anew")
    assert file == "workflow-state.json"
    assert evidence == "created 2026-03-31T00:00:00Z, then 2026-03-31T14:08:13Z; 1 entries before"
    assert not {"unamended_change", "rewritten_log"} & set(s.kinds(answer))


def test_new_creation_date_alone_is_no_restart(tmp_path: Path) -> None:
    """If the log continues after the new date, a changed definition is still a finding."""
    folder = tmp_path / "w"
    stage = s.stage(1, parameters={"a": 1})
    s.committed(folder, [s.write_files(tmp_path / "1", s.document(stage), s.log_of("begun"))])
    changed = s.document(s.stage(1, parameters={"a": 2}), created="2026-03-31T10:00:01Z")
    s.write_files(folder, changed, s.log_of("begun", "changed"))
    answer = s.import_(folder, "--git", "--dry-run")
    assert "begun_anew" not in s.kinds(answer)
    assert len(s.of_kind(answer, "unamended_change")) == 1


def test_commits_of_another_workflow_are_ignored(tmp_path: Path) -> None:
    """Lines and times of those commits are not imported, and one finding reports them."""
    earlier = s.document(s.stage(1, "completed"), workflow_id="old", created="2020-01-01T00:00:00Z")
    log = "[2020-01-01T00:00:00Z] stage-1 (S1): status -> running\n"
    sources = [s.write_files(tmp_path / "1", earlier, log)]
    sources.append(s.write_files(tmp_path / "2", earlier, log + log))
    sources.append(s.write_files(tmp_path / "3", s.document(s.stage(1)), s.log_of("begun")))
    folder = s.committed(tmp_path / "w", sources)
    answer = s.import_(folder, "--git")
    found = [one for one in answer.data["findings"] if one["kind"] == "other_workflow"]
    assert [(one["evidence"], one["count"]) for one in found] == [("old", 2)]
    events = Place(folder).done("events")
    assert min(event["occurred_at"] for event in events) >= "2026"
    assert len([event for event in events if event["type"] == "state.imported"]) == 1
