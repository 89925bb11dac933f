"""Every decision reserved for a person needs a proof under the current consent policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.adversary import raw
from tests.amendments.support import PLAN as STAGES
from tests.amendments.support import Keys, make, make_keys
from tests.cli.support import Answer, Place, wfctl
from tests.cli.terminal import answered
from tests.machines.place import MachinePlace

pytestmark = pytest.mark.slow
POLICIES = ("terminal", "signature", "trust")
ACTORS = {"an agent": "agent:hasty", "a person, it says": "user:pi"}


class Case(NamedTuple):
    """A root in which a decision is pending, and the command that makes the decision."""

    path: Path
    line: tuple[str, ...]
    events: tuple[str, ...]

    def types(self) -> list[str]:
        """Return the types of the recorded events."""
        answer = wfctl("--root", str(self.path), "-o", "json", *self.events)
        return [one["type"] for one in answer.data]

    def decide(self, actor: str, *more: str) -> Answer:
        """Run the command with the answer `y` from a pipe."""
        line = ("--root", str(self.path), "-o", "json", "--actor", actor, *self.line, *more)
        return wfctl(*line, stdin="y\ny\n")

    def typed(self, answer: str, *more: str) -> tuple[int, str]:
        """Run the command at a terminal, and type the answer."""
        return answered(answer, "--root", str(self.path), "--actor", "user:pi", *self.line, *more)


def _policy(policy: str, keys: Keys) -> tuple[str, ...]:
    signers = ("--signers", str(keys.signers)) if policy == "signature" else ()
    return ("--consent", policy, *signers)


def _workflow(folder: Path, policy: str, keys: Keys) -> Place:
    return make(folder / "root", *_policy(policy, keys), plan=STAGES)


def results(folder: Path, policy: str, keys: Keys) -> Case:
    """Return a workflow whose result file was changed after its stage completed."""
    place = _workflow(folder, policy, keys)
    place.call("run")
    (place.path / "stage-1/out.txt").write_text("rounded\n")
    line = ("verify", "stage-1", "--adopt", "--reason", "rounded")
    return Case(place.path, line, ("events",))


def edited(folder: Path, policy: str, keys: Keys) -> Case:
    """Return a workflow whose state file was edited by hand."""
    place = _workflow(folder, policy, keys)
    path = place.path / "workflow-state.json"
    document = json.loads(path.read_text("utf-8"))
    document["x-note"] = "by hand"
    path.write_text(json.dumps(document, indent=2), "utf-8")
    place.done("note", "went on")
    return Case(place.path, ("drift", "revert"), ("events",))


def machine(folder: Path, policy: str, keys: Keys) -> Case:
    """Return a phase machine whose state file was edited by hand."""
    place = MachinePlace(folder / "root")
    place.path.mkdir()
    place.done("init", "login", "--type", "feature", *_policy(policy, keys))
    (name,) = (one for one in place.path.rglob("*.json") if ".wfctl" not in one.parts)
    document = json.loads(name.read_text("utf-8"))
    document["phase"] = "complete"
    place.write(str(name), document)
    place.done("checkpoint", "login", "--summary", "went on")
    return Case(
        place.path, ("machine", "drift", "login", "--revert"), ("events", "--machine", "login")
    )


def reported(folder: Path, policy: str, keys: Keys) -> Case:
    """Return a workflow whose audit lists an attempted or unproven decision of an agent."""
    case = results(folder, policy, keys)
    case.decide("agent:hasty")
    listed = wfctl("--root", str(case.path), "-o", "json", "audit", "bypasses").data
    entry = next(one for one in listed if one["agreed"] is None)
    return Case(case.path, ("audit", "agree", entry["entry"], "--reason", "seen"), ("events",))


#: Text that the confirmation question must show for each kind of decision.
SHOWN = {
    "results": "SHA-256",
    "reported": "This will be recorded: a person agrees to the entry (seen)",
}
KINDS: dict[str, tuple[Callable[[Path, str, Keys], Case], str]] = {
    "results": (results, "results.adopted"),
    "reported": (reported, "audit.agreed"),
    "workflow": (edited, "drift.reverted"),
    "machine": (machine, "drift.reverted"),
}


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    """Create the keys of an allowed signer and of a stranger."""
    return make_keys(tmp_path)


def _decided(case: Case, type_: str) -> dict[str, Any]:
    answer = wfctl("--root", str(case.path), "-o", "json", *case.events, "--type", type_)
    (event,) = answer.data
    data: dict[str, Any] = event["data"]
    return data


@pytest.mark.few(6)
@pytest.mark.parametrize("actor", ACTORS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_answer_from_a_pipe_decides_nothing(
    tmp_path: Path, keys: Keys, kind: str, policy: str, actor: str
) -> None:
    """The command exits with code 6 under every consent policy except `trust`."""
    build, type_ = KINDS[kind]
    case = build(tmp_path, policy, keys)
    before = case.types()
    answer = case.decide(ACTORS[actor])
    if policy == "trust":
        assert answer.code == 0, answer
        assert _decided(case, type_)["proof"]["policy"] == "trust"
        return
    assert (answer.code, answer.error["code"]) == (6, "needs_consent"), answer
    assert case.types() == before
    if policy == "signature":
        assert case.decide(ACTORS[actor], "--key", str(keys.stranger)).code == 6
        assert case.types() == before


@pytest.mark.parametrize("kind", KINDS)
def test_person_decides_at_a_terminal(tmp_path: Path, keys: Keys, kind: str) -> None:
    """The terminal shows the whole decision; `y` records it, and `n` changes nothing."""
    build, type_ = KINDS[kind]
    case = build(tmp_path, "terminal", keys)
    before = case.types()
    assert case.typed("n\n")[0] == 6
    assert case.types() == before
    code, shown = case.typed("y\n")
    assert code == 0, shown
    assert SHOWN.get(kind, "the manual edit that was detected") in shown
    data = _decided(case, type_)
    assert (data["approved_by"], data["proof"]["policy"]) == ("user:pi", "terminal")


def test_mistyped_answer_is_no_refused_attempt(tmp_path: Path, keys: Keys) -> None:
    """A mistyped answer decides nothing, and the audit lists no refused attempt."""
    case = results(tmp_path, "terminal", keys)
    code, shown = case.typed("maybe\nmaybe\nmaybe\n")
    assert (code, "neither y nor n" in shown) == (6, True), shown
    assert wfctl("--root", str(case.path), "-o", "json", "audit", "refused").data == []


@pytest.mark.parametrize("kind", KINDS)
def test_person_decides_with_a_key(tmp_path: Path, keys: Keys, kind: str) -> None:
    """The signing key proves the decision; a machine also asks about unapproved signers."""
    build, type_ = KINDS[kind]
    case = build(tmp_path, "signature", keys)
    code, shown = case.typed("y\n", "--key", str(keys.allowed))
    assert (code, "Approve?" in shown) == (0, "machine" in kind), shown
    data = _decided(case, type_)
    assert (data["approved_by"], data["proof"]["policy"]) == ("pi@example.org", "signature")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "machine" not in kind])
def test_append_records_no_decision(tmp_path: Path, keys: Keys, kind: str) -> None:
    """`append` refuses a decision under every policy, even if the data include a proof."""
    build, type_ = KINDS[kind]
    case = build(tmp_path, "trust", keys)
    planned = wfctl("--root", str(case.path), "-o", "json", *case.line, "--dry-run").data
    (data,) = (one["data"] for one in planned["events"] if one["type"] == type_)
    line = ("append", type_, "--data", json.dumps({**data, "proof": {"policy": "trust"}}))
    answer = wfctl("--root", str(case.path), "-o", "json", *line)
    assert (answer.code, answer.error["code"]) == (6, "needs_consent"), answer
    assert type_ not in case.types()


def _told(case: Case) -> tuple[str, str, list[str]]:
    """Return the output of status and report, and the unproven decisions of the audit."""
    line = ("--root", str(case.path))
    listed = wfctl(*line, "-o", "json", "audit", "bypasses").data
    said, report = (" ".join(wfctl(*line, word).out.split()) for word in ("status", "report"))
    return said, report, [one["what"] for one in listed if one["kind"] == "unagreed"]


@pytest.mark.few(1)
@pytest.mark.parametrize("policy", POLICIES)
def test_status_and_report_name_the_consent_policy(tmp_path: Path, keys: Keys, policy: str) -> None:
    """Status and report state who approved the decision and under which consent policy."""
    case = results(tmp_path, policy, keys)
    if policy == "trust":
        assert case.decide("agent:hasty").code == 0
    else:
        more = ("--key", str(keys.allowed)) if policy == "signature" else ()
        assert case.typed("y\n", *more)[0] == 0
    said, report, unagreed = _told(case)
    how = {
        "trust": "by agent:hasty (policy trust: anyone can approve)",
        "terminal": "at a terminal by user:pi (name not verified)",
        "signature": "signed by pi@example.org",
    }
    for text in (said, report):
        assert f"stage-1/out.txt: changed by hand and adopted, {how[policy]}" in text
    assert unagreed == []


@pytest.mark.few(1)
@pytest.mark.forged
@pytest.mark.parametrize("proof", [None, "of another head"])
def test_event_without_proof_is_effective_and_reported(
    tmp_path: Path, keys: Keys, proof: str | None
) -> None:
    """A recorded decision without a proof still has its effect, and the audit reports it."""
    case = results(tmp_path, "terminal", keys)
    content = (case.path / "stage-1/out.txt").read_bytes()
    output = {"path": "stage-1/out.txt", "size": 8, "sha256": sha256(content).hexdigest()}
    data: dict[str, Any] = {"stage": "stage-1", "outputs": [output], "reason": "so"}
    if proof is not None:
        data |= {"approved_by": "user:pi", "proof": {"policy": "terminal", "statement": "0" * 64}}
    version = 1 if proof is None else 2
    raw.append(case.path, "results.adopted", data, schema_version=version)
    said, report, unagreed = _told(case)
    assert unagreed == ["results.adopted of stage-1"]
    for text in (said, report) if proof is None else ():
        assert "changed by hand and adopted, without the approval of a person" in text
