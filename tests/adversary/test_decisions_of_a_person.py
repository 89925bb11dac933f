"""A person's decision is asked by the policy in force, whatever it is, of every caller."""

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
    """A place where something waits for a person, and the command that decides it."""

    path: Path
    line: tuple[str, ...]
    events: tuple[str, ...]

    def types(self) -> list[str]:
        """Return the types of what is recorded."""
        answer = wfctl("--root", str(self.path), "-o", "json", *self.events)
        return [one["type"] for one in answer.data]

    def decide(self, actor: str, *more: str) -> Answer:
        """Call the command at a pipe that says y."""
        line = ("--root", str(self.path), "-o", "json", "--actor", actor, *self.line, *more)
        return wfctl(*line, stdin="y\ny\n")

    def typed(self, answer: str, *more: str) -> tuple[int, str]:
        """Call the command at a terminal, and type the answer."""
        return answered(answer, "--root", str(self.path), "--actor", "user:pi", *self.line, *more)


def _policy(policy: str, keys: Keys) -> tuple[str, ...]:
    signers = ("--signers", str(keys.signers)) if policy == "signature" else ()
    return ("--consent", policy, *signers)


def _workflow(folder: Path, policy: str, keys: Keys) -> Place:
    return make(folder / "root", *_policy(policy, keys), plan=STAGES)


def results(folder: Path, policy: str, keys: Keys) -> Case:
    """Return a workflow, a result of which somebody changed afterwards."""
    place = _workflow(folder, policy, keys)
    place.call("run")
    (place.path / "stage-1/out.txt").write_text("rounded\n")
    line = ("verify", "stage-1", "--adopt", "--reason", "rounded")
    return Case(place.path, line, ("events",))


def edited(folder: Path, policy: str, keys: Keys) -> Case:
    """Return a workflow with a hand edit of its state."""
    place = _workflow(folder, policy, keys)
    path = place.path / "workflow-state.json"
    document = json.loads(path.read_text("utf-8"))
    document["x-note"] = "by hand"
    path.write_text(json.dumps(document, indent=2), "utf-8")
    place.done("note", "went on")
    return Case(place.path, ("drift", "revert"), ("events",))


def machine(folder: Path, policy: str, keys: Keys) -> Case:
    """Return a machine with a hand edit of its state."""
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


KINDS: dict[str, tuple[Callable[[Path, str, Keys], Case], str]] = {
    "results": (results, "results.adopted"),
    "workflow": (edited, "drift.reverted"),
    "machine": (machine, "drift.reverted"),
}


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    """Make the keys of a signer and of a stranger."""
    return make_keys(tmp_path)


def _decided(case: Case, type_: str) -> dict[str, Any]:
    answer = wfctl("--root", str(case.path), "-o", "json", *case.events, "--type", type_)
    (event,) = answer.data
    data: dict[str, Any] = event["data"]
    return data


@pytest.mark.parametrize("actor", ACTORS)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kind", KINDS)
def test_nobody_decides_at_a_pipe(
    tmp_path: Path, keys: Keys, kind: str, policy: str, actor: str
) -> None:
    """But for ``trust``, and that is what the proof says then."""
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
def test_a_person_decides_at_a_terminal(tmp_path: Path, keys: Keys, kind: str) -> None:
    """After all of it was shown; n decides nothing."""
    build, type_ = KINDS[kind]
    case = build(tmp_path, "terminal", keys)
    before = case.types()
    assert case.typed("n\n")[0] == 6
    assert case.types() == before
    code, shown = case.typed("y\n")
    assert code == 0, shown
    assert ("SHA-256" if kind == "results" else "the hand edit that was detected") in shown
    data = _decided(case, type_)
    assert (data["approved_by"], data["proof"]["policy"]) == ("user:pi", "terminal")


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_decides_by_a_key(tmp_path: Path, keys: Keys, kind: str) -> None:
    """And says y at a terminal if nobody has agreed to the signers of a machine yet."""
    build, type_ = KINDS[kind]
    case = build(tmp_path, "signature", keys)
    code, shown = case.typed("y\n", "--key", str(keys.allowed))
    assert (code, "Approve?" in shown) == (0, "machine" in kind), shown
    data = _decided(case, type_)
    assert (data["approved_by"], data["proof"]["policy"]) == ("pi@example.org", "signature")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "machine" not in kind])
def test_append_takes_no_decision(tmp_path: Path, keys: Keys, kind: str) -> None:
    """Not even with a proof, and under no policy."""
    build, type_ = KINDS[kind]
    case = build(tmp_path, "trust", keys)
    planned = wfctl("--root", str(case.path), "-o", "json", *case.line, "--dry-run").data
    (data,) = (one["data"] for one in planned["events"] if one["type"] == type_)
    line = ("append", type_, "--data", json.dumps({**data, "proof": {"policy": "trust"}}))
    answer = wfctl("--root", str(case.path), "-o", "json", *line)
    assert (answer.code, answer.error["code"]) == (6, "needs_consent"), answer
    assert type_ not in case.types()


def _told(case: Case) -> tuple[str, str, list[str]]:
    """Return what status and report say, and what the audit calls unagreed."""
    line = ("--root", str(case.path))
    listed = wfctl(*line, "-o", "json", "audit", "bypasses").data
    said, report = (" ".join(wfctl(*line, word).out.split()) for word in ("status", "report"))
    return said, report, [one["what"] for one in listed if one["kind"] == "unagreed"]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_account_says_how_anybody_agreed(tmp_path: Path, keys: Keys, policy: str) -> None:
    """By the policy, in status and report alike."""
    case = results(tmp_path, policy, keys)
    if policy == "trust":
        assert case.decide("agent:hasty").code == 0
    else:
        more = ("--key", str(keys.allowed)) if policy == "signature" else ()
        assert case.typed("y\n", *more)[0] == 0
    said, report, unagreed = _told(case)
    how = {
        "trust": "by agent:hasty, on trust: this policy asks for no person",
        "terminal": "at a terminal, as user:pi by the caller's own word",
        "signature": "signed by pi@example.org",
    }
    for text in (said, report):
        assert f"stage-1/out.txt: changed by hand and taken as it is, {how[policy]}" in text
    assert unagreed == []


@pytest.mark.forged
@pytest.mark.parametrize("proof", [None, "of another head"])
def test_an_event_without_a_proof_keeps_its_effect_and_is_named(
    tmp_path: Path, keys: Keys, proof: str | None
) -> None:
    """As an earlier program recorded it, or somebody with the database in his hands."""
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
        assert "changed by hand and taken as it is, and nobody agreed to it" in text
