"""Status, report and page tell later readers how a result was produced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.adoption.support import document, imported, stage, write_files
from tests.cli.support import Place
from tests.exports.support import text_of
from tests.pages.support import served
from tests.reconciler.support import until
from tests.sweeps.support import begun, sweep

STAGE: dict[str, Any] = {
    "id": "stage-1",
    "name": "Sample",
    "outputs": ["stage-1/out.txt"],
    "parameters": {"command": "bash sample.sh", "forward_files": ["sample.sh"]},
}
FAILS, CONSTANT = "exit 3\n", "echo 0.97 > out.txt\n"


def failed(folder: Path) -> Place:
    """Return a workflow whose only stage failed."""
    place = begun(folder, STAGE)
    script(place).parent.mkdir()
    script(place).write_text(FAILS)
    assert place.json("run").code == 6
    return place


def script(place: Place) -> Path:
    """Return the script that the stage runs."""
    return place.path / "stage-1/sample.sh"


def told(place: Place) -> list[tuple[str, str]]:
    """Return the items of the status account, and check that report and page have them.

    Items that wait for a person are left out. Items that come from reading files appear only on the
    served page, and not in an export of the log.
    """
    found = [one for one in place.done("status")["account"] if not one["person"]]
    report = place.call("report").out
    page = text_of(place, "report")
    if any(one["text"].replace("'", "&#39;") not in page for one in found):
        with served(place.path.parent, "--root", str(place.path)) as pages:
            page = pages.get(f"/w/{place.done('status')['workflow']}/").text
    for one in found:
        assert one["text"].replace("'", "&#39;") in page, page
        assert one["text"] in " ".join(report.split()).replace("\\", "")
    return [(one["kind"], one["text"]) for one in found]


def check_reported(place: Place, account: tuple[str, str], audit: tuple[str, str]) -> None:
    """Check that the stage is completed, and that account and audit have the given items."""
    assert place.done("status")["stages"][0]["status"] == "completed"
    assert any(account[0] == one and account[1] in text for one, text in told(place)), told(place)
    listed = place.json("audit", "bypasses")
    assert listed.code == 7
    assert any(audit[0] == one["kind"] and audit[1] in one["why"] for one in listed.data), listed


@pytest.mark.long
@pytest.mark.slow
def test_script_rewritten_between_failure_and_pass_is_reported(tmp_path: Path) -> None:
    """After the failure, the script is replaced; `status` names the changed script."""
    place = failed(tmp_path)
    script(place).write_text(CONSTANT)
    place.done("stage", "retry", "stage-1", "--fix", "It samples longer.")
    place.done("run")
    expected = "stage-1/sample.sh has changed since att-0001, which failed"
    assert ("script", expected) in told(place)


@pytest.mark.long
@pytest.mark.slow
def test_script_approved_between_failure_and_pass_is_not_reported(tmp_path: Path) -> None:
    """The approval between the attempts contains the digest of the new script."""
    place = failed(tmp_path)
    script(place).write_text(CONSTANT)
    pinning = ["--set", "session_config.pin=scripts", "--reason", "The old one had a fault."]
    place.done("amend", "propose", *pinning)
    place.done("amend", "approve", "amend-1")
    place.done("stage", "retry", "stage-1", "--fix", "The fault is mended.")
    place.done("run")
    assert "script" not in dict(told(place))


@pytest.mark.long
@pytest.mark.slow
def test_script_approved_before_a_later_approval_is_not_reported(tmp_path: Path) -> None:
    """wfctl considers every approval between the two attempts, not only the newest."""
    place = failed(tmp_path)
    script(place).write_text(CONSTANT)
    place.done("amend", "propose", "--set", "workflow_plan=a.md", "--reason", "It had a fault.")
    place.done("amend", "approve", "amend-1")
    place.done("stage", "retry", "stage-1", "--fix", "The fault is mended.")
    place.done("run")
    script(place).write_text("echo 0.98 > out.txt\n")
    place.done("amend", "propose", "--set", "workflow_plan=b.md", "--reason", "Time.")
    place.done("amend", "approve", "amend-2")
    assert "script" not in dict(told(place))


@pytest.mark.slow
def test_approved_script_of_another_stage_is_not_reported_as_module(
    tmp_path: Path,
) -> None:
    """A check could import this script from its folder, but its digest was approved."""
    first = {**STAGE, "parameters": {**STAGE["parameters"], "verify": "test -s stage-1/out.txt"}}
    second = {"id": "stage-2", "name": "Plot", "parameters": {"command": "python3 ../plot.py"}}
    place = begun(tmp_path, first, {**second, "depends_on": ["stage-1"], "inputs": ["plot.py"]})
    (place.path / "plot.py").write_text("print(1)\n")
    script(place).parent.mkdir()
    script(place).write_text(f"test -e {place.path}/go && echo 1 > out.txt\n")
    assert place.json("run").code == 6
    (place.path / "plot.py").write_text("print(2)\n")
    change = ["--set", "parameters.n=2", "--reason", "It plots another thing."]
    place.done("amend", "propose", "--stage", "stage-2", *change)
    place.done("amend", "approve", "amend-1")
    (place.path / "go").touch()
    place.done("stage", "retry", "stage-1", "--fix", "made go")
    place.done("run")
    assert told(place) == []


@pytest.mark.long
@pytest.mark.slow
def test_changed_python_option_between_failure_and_pass_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONOPTIMIZE turns off assertions, so a script that failed before passes."""
    place = begun(tmp_path, STAGE)
    script(place).parent.mkdir()
    script(place).write_text("python3 -c 'assert 0' && echo 1 > out.txt\n")
    assert place.json("run").code == 6
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    place.done("stage", "retry", "stage-1", "--fix", "none")
    place.done("run")
    said = "PYTHONOPTIMIZE=1 was not set in att-0001, which failed"
    assert ("environment", said) in told(place)


@pytest.mark.slow
def test_result_rewritten_after_the_job_is_reported(tmp_path: Path) -> None:
    """The output differs from the digest that wfctl recorded when the job ended."""
    place = begun(tmp_path, {**STAGE, "success_criteria": "It is above 0.95."})
    script(place).parent.mkdir()
    script(place).write_text("echo 0.5 > out.txt\n")
    assert place.json("run").code == 6
    (place.path / "stage-1/out.txt").write_text("0.97\n")
    place.done("stage", "complete", "stage-1", "--evidence", "It is 0.97.")
    expected = (
        "stage-1/out.txt differs from the output of att-0001: the file was rewritten after "
        "the job ended"
    )
    assert ("rewritten", expected) in told(place)


@pytest.mark.slow
def test_result_rewritten_before_the_end_of_the_job_was_noticed_is_reported(
    tmp_path: Path,
) -> None:
    """The output is newer than the end of its job, so it was rewritten later."""
    place = begun(tmp_path, {**STAGE, "success_criteria": "It is above 0.95."})
    script(place).parent.mkdir()
    script(place).write_text("echo 0.5 > out.txt\n")
    place.done("dispatch", "stage-1")
    out = place.path / "stage-1/out.txt"
    until((place.path / "stage-1/DPDISP_DONE").exists)
    out.write_text("0.97\n")
    later = out.stat().st_mtime + 40
    os.utime(out, (later, later))
    place.done("wait", "stage-1")  # the monitor ends only after the file is written
    place.done("stage", "complete", "stage-1", "--evidence", "It is 0.97.")
    kinds = dict(told(place))
    assert kinds["rewritten"].startswith("stage-1/out.txt was written 4")
    assert kinds["rewritten"].endswith(" s after the job ended")


@pytest.mark.long
@pytest.mark.slow
def test_unchanged_table_of_a_sweep_is_not_reported(tmp_path: Path) -> None:
    """wfctl itself writes the table after the tasks end, so this is no rewrite."""
    place = begun(tmp_path, sweep(tmp_path / "trace", {"grid": {"T": [1, 2]}}))
    place.done("run")
    assert told(place) == []


def test_imported_stage_is_reported_as_not_verified(tmp_path: Path) -> None:
    """Only the imported file says that the stage is completed; wfctl did not verify it."""
    state = document(stage(1, "completed"), workflow_status="completed")
    place = imported(write_files(tmp_path / "melt", state))
    assert ("taken over", "completed by an imported record; nothing verified it") in told(place)
    page = text_of(place, "report")
    assert "completed and verified" not in page
    assert "1 of them taken over and not verified" in page


def test_stage_imported_while_running_is_verified_normally(tmp_path: Path) -> None:
    """A judge completes this stage after the import, so the report does not mention it."""
    place = imported(write_files(tmp_path / "melt", document(stage(1, "post_processing"))))
    place.done("stage", "complete", "stage-1", "--evidence", "I looked.")
    assert told(place) == []
    assert "taken over" not in text_of(place, "report")


@pytest.mark.slow
def test_report_states_what_the_consent_policy_proves(tmp_path: Path) -> None:
    """Under the policy `trust`, the report does not call an agent's approval a person's."""
    place = begun(tmp_path, STAGE)
    place.done("amend", "propose", "--set", "workflow_plan=plan.md", "--reason", "Time.")
    place.done("--actor", "agent:hasty", "amend", "approve", "amend-1")
    page = text_of(place, "report")
    assert "(policy trust: anyone can approve)" in page
    assert "A person decided" not in page
