"""No job of a workflow starts before a person approves its first plan."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.adversary import raw
from tests.amendments.support import Keys, Place, make, sign
from tests.cli.support import call, wfctl, write_plan
from tests.cli.terminal import answered

PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-11-25",
    "purpose": "See it melt.",
    "stages": [
        {
            "id": "stage-1",
            "name": "Build",
            "outputs": ["stage-1/out.txt"],
            "parameters": {"command": "sh run.sh > out.txt", "expected_seconds": 90},
        }
    ],
}
AGENT = {"WFCTL_ACTOR": "agent:bob"}


def furnished(tmp_path: Path) -> Path:
    """Create a folder with a plan and its script."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "stage-1").mkdir()
    (root / "stage-1/run.sh").write_text("echo hi\n")
    write_plan(root, PLAN)
    return root


def imported(tmp_path: Path) -> Path:
    """Create a folder with a workflow state file and a log to import."""
    root = furnished(tmp_path)
    done = make(tmp_path / "other", "--consent", "trust", plan=PLAN)
    for name in ("workflow-state.json", "progress.log"):
        shutil.copy(done.path / name, root / name)
    return root


WAYS = {"init": (furnished, "plan.json"), "import": (imported, ".")}


def begun(tmp_path: Path, way: str, *policy: str) -> Place:
    """Create or import a workflow as an agent."""
    furnish, source = WAYS[way]
    root = furnish(tmp_path)
    done = wfctl("--root", str(root), way, str(root / source), *policy, cwd=root, environ=AGENT)
    assert done.code == 0, done
    return Place(root)


def at_a_terminal(answer: str, place: Path, *line: str) -> tuple[int, str]:
    """Run a command at a terminal, and type the answer to its question."""
    return answered(answer, "--root", str(place), *line)


@pytest.fixture(params=["init", "import"])
def way(request: pytest.FixtureRequest) -> str:
    """Return the name of the command that creates the workflow: `init` or `import`."""
    return str(request.param)


def test_unapproved_plan_starts_no_job(tmp_path: Path, way: str) -> None:
    """Every command that would start a job exits with code 6 and names the approval."""
    place = begun(tmp_path, way)
    for line in (["run"], ["dispatch", "stage-1"]):
        answer = wfctl("--root", str(place.path), *line, environ=AGENT)
        assert (answer.code, "amend approve plan" in answer.out + answer.err) == (6, True), answer
    refused = wfctl("--root", str(place.path), "amend", "approve", "plan", environ=AGENT)
    assert refused.code == 6
    assert not place.attempts("stage-1")
    assert "the plan waits for a person" in place.call("status").out
    assert any(one["kind"] == "refused" for one in place.bypasses())


def test_person_sees_the_full_plan_before_approving(tmp_path: Path, way: str) -> None:
    """`amend approve` shows the stages, commands, file digests and cost of the plan first."""
    place = begun(tmp_path, way)
    code, shown = at_a_terminal("y\n", place.path, "amend", "approve", "plan")
    assert code == 0, shown
    for told in ("sh run.sh > out.txt", "stage-1/run.sh, SHA-256 ", "May cost: 1 ", "by terminal"):
        assert told in shown
    assert place.call("run").code == 0
    found = place.done("status")
    assert [stage["status"] for stage in found["stages"]] == ["completed"]
    assert place.document()["version"] == 1
    assert place.document()["amendments"] == []
    assert "plan approved at a terminal" in place.call("report", "-").out


def test_person_who_creates_a_workflow_approves_its_plan(tmp_path: Path, way: str) -> None:
    """A person who types `init` or `import` at a terminal is asked no question."""
    furnish, source = WAYS[way]
    root = furnish(tmp_path)
    code, shown = at_a_terminal("", root, way, str(root / source))
    assert (code, "Approve?" in shown) == (0, False), shown
    proof = [one for one in Place(root).done("amend", "list") if one["id"] == "plan"]
    assert [one["status"] for one in proof] == ["approved"]
    assert Place(root).call("run").code == 0


def test_unapproved_plan_under_trust_runs_with_a_warning(tmp_path: Path, way: str) -> None:
    """Under `trust` jobs start, and `status` reports that nobody approved the plan."""
    place = begun(tmp_path, way, "--consent", "trust")
    assert "nobody approved the plan" in place.call("status").out
    assert place.call("run").code == 0


@pytest.mark.few(1)
def test_signers_named_by_an_agent_need_approval(tmp_path: Path, way: str, keys: Keys) -> None:
    """A key that an agent allowed cannot approve until a person confirms the signers."""
    place = begun(tmp_path, way, "--consent", "signature", "--signers", str(keys.signers))
    root = ("--root", str(place.path))
    line = ("amend", "approve", "plan", "--key", str(keys.allowed))
    assert wfctl(*root, *line, environ=AGENT).code == 6
    assert wfctl(*root, *line, environ={"WFCTL_ACTOR": "user:pi"}).code == 6
    wanted = ("--set", "consent=trust", "--reason", "quicker")
    assert wfctl(*root, "amend", "propose", *wanted, environ=AGENT).code == 0
    loosened = ("amend", "approve", "amend-1", "--key", str(keys.allowed))
    assert wfctl(*root, *loosened, environ=AGENT).code == 6
    code, shown = at_a_terminal("y\n", place.path, *line)
    assert code == 0, shown
    assert "pi@example.org ssh-ed25519" in shown
    place.done("amend", "reject", "amend-1")
    assert place.call("run").code == 0


def test_appended_signature_of_unconfirmed_signers_is_ignored(tmp_path: Path, keys: Keys) -> None:
    """An approval by an unconfirmed signer starts no job, and the audit lists the row."""
    place = begun(tmp_path, "init", "--consent", "signature", "--signers", str(keys.signers))
    statement = place.call("amend", "show", "plan", "--statement").out
    signed = sign(statement, keys.allowed, tmp_path).read_text()
    from eventstore.chain import sha256_hex

    known = json.loads(statement)
    proof = {"policy": "signature", "form": known["form"], "signer": "pi@example.org"}
    proof |= {"statement": sha256_hex(statement.encode()), "signature": signed}
    data = {"amendment": "plan", "version": 1, "scripts": known["scripts"], "proof": proof}
    data |= {"invalidated_stages": [], "approved_by": "pi@example.org", "kept": {}}
    place.write_row("amendment.approved", data)
    assert place.call("run").code == 6
    why = [one["why"] for one in place.bypasses() if one["kind"] == "ineffective"]
    assert why == ["no person at a terminal has approved the signers"]


def test_signers_of_a_machine_named_by_an_agent_need_approval(tmp_path: Path, keys: Keys) -> None:
    """A person must confirm the machine's signers at a terminal before its first approval."""
    root = ("--root", str(tmp_path))
    policy = ("--consent", "signature", "--signers", str(keys.signers))
    begin = ("machine", "init", "wf", "--type", "dotagent", *policy)
    assert wfctl(*root, *begin, environ=AGENT).code == 0
    file = tmp_path / "02-requirements.md"
    assert wfctl(*root, "machine", "rehydrate", "wf").code == 0
    line = ("machine", "approve", "wf", "requirements", "--key", str(keys.allowed))
    assert wfctl(*root, *line, environ=AGENT).code == 6
    assert not file.exists()
    code, shown = at_a_terminal("y\n", tmp_path, *line)
    assert (code, "pi@example.org ssh-ed25519" in shown) == (0, True), shown


def test_appended_creation_of_a_workflow_needs_approval(tmp_path: Path) -> None:
    """A workflow that was created with `append` also waits for the approval of its plan."""
    root = ("--root", str(tmp_path))
    assert wfctl(*root, "machine", "init", "fix", "--type", "debug", environ=AGENT).code == 0
    data = json.dumps({"document": PLAN, "proposed": False})
    begun = wfctl(*root, "append", "workflow.created", "--data", data, environ=AGENT)
    assert begun.code == 0, begun
    assert wfctl(*root, "dispatch", "stage-1", environ=AGENT).code == 6
    assert "the plan waits for a person" in wfctl(*root, "status").out


def test_invalid_plan_can_be_shown_before_its_approval(tmp_path: Path) -> None:
    """`amend show plan` shows an imported plan even if its values are invalid."""
    root = imported(tmp_path)
    path = root / "workflow-state.json"
    document = json.loads(path.read_text())
    document["stages"][0]["parameters"]["map"] = {"points": "x"}
    document["amendments"] = [{"id": "plan", "type": "plan", "version": 1}]
    path.write_text(json.dumps(document))
    assert wfctl("--root", str(root), "import", str(root), environ=AGENT).code == 0
    shown = Place(root).call("amend", "show", "plan")
    assert (shown.code, 'map: {"points": "x"}' in shown.out) == (0, True), shown
    assert wfctl("--root", str(root), "run", environ=AGENT).code == 6


def test_rejected_plan_can_still_be_approved(tmp_path: Path) -> None:
    """A rejected plan starts no job, and a person can approve the plan later."""
    place = begun(tmp_path, "init")
    place.done("amend", "reject", "plan")
    assert place.call("run").code == 6
    assert "the plan was rejected" in place.call("status").out
    assert place.call("amend", "reject", "plan").code == 5
    code, shown = at_a_terminal("y\n", place.path, "amend", "approve", "plan")
    assert code == 0, shown
    assert place.call("run").code == 0


def test_inbox_shows_the_full_plan(tmp_path: Path, way: str) -> None:
    """The inbox entry shows the commands and file digests of the unapproved plan."""
    place = begun(tmp_path, way)
    every = json.loads(call("-o", "json", "inbox").out)["data"]
    found = [one for one in every if one["root"] == str(place.path)]
    assert [(one["kind"], one["subject"]) for one in found] == [("amendment", "plan")]
    assert "sh run.sh > out.txt" in found[0]["text"]
    assert "run.sh, SHA-256" in found[0]["text"]


def test_changed_script_prevents_the_approval_of_the_plan(tmp_path: Path) -> None:
    """The approval exits with code 4 if a script changed after the plan was shown."""
    place = begun(tmp_path, "init")
    digest = place.done("amend", "show", "plan")["impact"]["digest"]
    (place.path / "stage-1/run.sh").write_text("echo ho\n")
    code, shown = at_a_terminal("y\n", place.path, "amend", "approve", "plan", "--impact", digest)
    assert code == 4, shown


@pytest.mark.forged
def test_plan_of_an_older_version_runs_with_a_warning(tmp_path: Path) -> None:
    """A plan from a version without approvals runs, and `status` warns about it."""
    place = begun(tmp_path, "init")

    def edit(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        del bodies[0]["data"]["proposed"]
        bodies[0]["schema_version"] -= 1
        return bodies

    raw.rechained(place.path, edit)
    place.done("run")
    word = "nobody approved the script, because nobody was asked when the workflow was created"
    assert ("unagreed", word) in [(one["kind"], one["text"]) for one in account(place)]
    assert word in " ".join(place.call("report").out.split())
    assert ("unagreed", word) in [
        (one["kind"], one["why"]) for one in place.json("audit", "bypasses").data
    ]


def account(place: Place) -> list[dict[str, Any]]:
    """Return the entries about the workflow that `status` lists."""
    found: list[dict[str, Any]] = place.done("status")["account"]
    return found
