"""The plan that a workflow begins with is agreed to by a person, like each change of it."""

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
    """Make a folder with a plan and the script that it runs."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "stage-1").mkdir()
    (root / "stage-1/run.sh").write_text("echo hi\n")
    write_plan(root, PLAN)
    return root


def imported(tmp_path: Path) -> Path:
    """Make a folder with the files of a workflow that somebody kept by hand."""
    root = furnished(tmp_path)
    done = make(tmp_path / "other", "--consent", "trust", plan=PLAN)
    for name in ("workflow-state.json", "progress.log"):
        shutil.copy(done.path / name, root / name)
    return root


WAYS = {"init": (furnished, "plan.json"), "import": (imported, ".")}


def begun(tmp_path: Path, way: str, *policy: str) -> Place:
    """Begin a workflow as an agent does."""
    furnish, source = WAYS[way]
    root = furnish(tmp_path)
    done = wfctl("--root", str(root), way, str(root / source), *policy, cwd=root, environ=AGENT)
    assert done.code == 0, done
    return Place(root)


def at_a_terminal(answer: str, place: Path, *line: str) -> tuple[int, str]:
    """Call a command at a terminal, and type the answer to its question."""
    return answered(answer, "--root", str(place), *line)


@pytest.fixture(params=["init", "import"])
def way(request: pytest.FixtureRequest) -> str:
    """How the workflow is begun."""
    return str(request.param)


def test_nothing_starts_of_a_plan_that_an_agent_began(tmp_path: Path, way: str) -> None:
    """Each way to a job ends with 6, and says who decides."""
    place = begun(tmp_path, way)
    for line in (["run"], ["dispatch", "stage-1"]):
        answer = wfctl("--root", str(place.path), *line, environ=AGENT)
        assert (answer.code, "amend approve plan" in answer.out + answer.err) == (6, True), answer
    refused = wfctl("--root", str(place.path), "amend", "approve", "plan", environ=AGENT)
    assert refused.code == 6
    assert not place.attempts("stage-1")
    assert "the plan waits for a person" in place.call("status").out
    assert any(one["kind"] == "refused" for one in place.bypasses())


def test_a_person_sees_the_plan_in_full_and_puts_it_in_force(tmp_path: Path, way: str) -> None:
    """Stages, commands, files with their digests and the cost stand above the question."""
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


def test_a_person_who_begins_the_workflow_agrees_by_it(tmp_path: Path, way: str) -> None:
    """The command that a person types at a terminal is the approval; nothing more is asked."""
    furnish, source = WAYS[way]
    root = furnish(tmp_path)
    code, shown = at_a_terminal("", root, way, str(root / source))
    assert (code, "Approve?" in shown) == (0, False), shown
    proof = [one for one in Place(root).done("amend", "list") if one["id"] == "plan"]
    assert [one["status"] for one in proof] == ["approved"]
    assert Place(root).call("run").code == 0


def test_a_script_that_says_trust_goes_on_and_every_status_says_so(
    tmp_path: Path, way: str
) -> None:
    """Nobody agreed to the plan, and anyone who looks reads it."""
    place = begun(tmp_path, way, "--consent", "trust")
    assert "nobody agreed to the plan" in place.call("status").out
    assert place.call("run").code == 0


def test_the_signers_that_an_agent_names_agree_to_nothing(
    tmp_path: Path, way: str, keys: Keys
) -> None:
    """A key that the agent made and allowed does not put the plan in force, nor any change."""
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


def test_a_signature_alone_that_somebody_wrote_into_the_log_counts_for_nothing(
    tmp_path: Path, keys: Keys
) -> None:
    """A row with a good signature of a signer that the agent named is told, and changes nothing."""
    place = begun(tmp_path, "init", "--consent", "signature", "--signers", str(keys.signers))
    statement = place.call("amend", "show", "plan", "--statement").out
    signed = sign(statement, keys.allowed, tmp_path).read_text()
    from eventstore.chain import digest

    known = json.loads(statement)
    proof = {"policy": "signature", "form": known["form"], "signer": "pi@example.org"}
    proof |= {"statement": digest(statement.encode()), "signature": signed}
    data = {"amendment": "plan", "version": 1, "scripts": known["scripts"], "proof": proof}
    data |= {"invalidated_stages": [], "approved_by": "pi@example.org", "kept": {}}
    place.write_row("amendment.approved", data)
    assert place.call("run").code == 6
    why = [one["why"] for one in place.bypasses() if one["kind"] == "ineffective"]
    assert why == ["no person at a terminal has agreed to the signers"]


def test_a_machine_whose_signers_an_agent_named_waits_for_a_word_at_a_terminal(
    tmp_path: Path, keys: Keys
) -> None:
    """The same law holds for the approvals of a machine, until a person has seen the signers."""
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


def test_no_event_that_is_appended_begins_a_workflow_without_a_word(tmp_path: Path) -> None:
    """In a root that a machine made, `append` goes by the rules: the plan waits there too."""
    root = ("--root", str(tmp_path))
    assert wfctl(*root, "machine", "init", "fix", "--type", "debug", environ=AGENT).code == 0
    data = json.dumps({"document": PLAN, "proposed": False})
    begun = wfctl(*root, "append", "workflow.created", "--data", data, environ=AGENT)
    assert begun.code == 0, begun
    assert wfctl(*root, "dispatch", "stage-1", environ=AGENT).code == 6
    assert "the plan waits for a person" in wfctl(*root, "status").out


def test_a_plan_whose_points_nobody_can_read_is_shown_all_the_same(tmp_path: Path) -> None:
    """A file that was kept by hand may hold anything; a person sees it, and a record gives way."""
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


def test_a_plan_that_was_rejected_waits_on_until_it_is_approved(tmp_path: Path) -> None:
    """A rejection starts nothing and ends nothing: the plan is amended, or taken as it is."""
    place = begun(tmp_path, "init")
    place.done("amend", "reject", "plan")
    assert place.call("run").code == 6
    assert "the plan was rejected" in place.call("status").out
    assert place.call("amend", "reject", "plan").code == 5
    code, shown = at_a_terminal("y\n", place.path, "amend", "approve", "plan")
    assert code == 0, shown
    assert place.call("run").code == 0


def test_the_inbox_shows_the_plan_in_full(tmp_path: Path, way: str) -> None:
    """Anyone who answers by number has read what the number stands for."""
    place = begun(tmp_path, way)
    every = json.loads(call("-o", "json", "inbox").out)["data"]
    found = [one for one in every if one["root"] == str(place.path)]
    assert [(one["kind"], one["subject"]) for one in found] == [("amendment", "plan")]
    assert "sh run.sh > out.txt" in found[0]["text"]
    assert "run.sh, SHA-256" in found[0]["text"]


def test_the_plan_that_was_shown_is_the_plan_that_is_agreed_to(tmp_path: Path) -> None:
    """Another script since then is another question."""
    place = begun(tmp_path, "init")
    digest = place.done("amend", "show", "plan")["impact"]["digest"]
    (place.path / "stage-1/run.sh").write_text("echo ho\n")
    code, shown = at_a_terminal("y\n", place.path, "amend", "approve", "plan", "--impact", digest)
    assert code == 4, shown


@pytest.mark.forged
def test_a_plan_that_nobody_was_asked_about_is_told(tmp_path: Path) -> None:
    """As an earlier wfctl began it, which anyone can still call: it goes on, and says so."""
    place = begun(tmp_path, "init")

    def edit(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
        del bodies[0]["data"]["proposed"]
        bodies[0]["schema_version"] -= 1
        return bodies

    raw.rechained(place.path, edit)
    place.done("run")
    word = "nobody agreed to it: nobody was asked when the workflow began"
    assert ("unagreed", word) in [(one["kind"], one["text"]) for one in account(place)]
    assert word in " ".join(place.call("report").out.split())
    assert ("unagreed", word) in [
        (one["kind"], one["why"]) for one in place.json("audit", "bypasses").data
    ]


def account(place: Place) -> list[dict[str, Any]]:
    """Return the account of a workflow."""
    found: list[dict[str, Any]] = place.done("status")["account"]
    return found
