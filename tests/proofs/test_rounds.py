"""A proof of a number that a loop computed in one of its rounds also names the round."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from extensions.proofs.check_proof import _collect_proven_facts, _Texts
from extensions.proofs.proof import Proof, read_proof
from tests.cli.support import HERE, Place, call
from tests.need import need_programs
from tests.sweeps.looped import looped

pytestmark = pytest.mark.slow


class Made(NamedTuple):
    """A loop whose third round failed, its log's public key, and proofs of the first two rounds."""

    place: Place
    key: str
    first: Proof
    second: Proof


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Return a loop with two computed rounds and a third round that did not end."""
    need_programs("tmux", "flock")
    folder = tmp_path_factory.mktemp("rounds")
    with pytest.MonkeyPatch.context() as login:
        login.setenv("XDG_STATE_HOME", str(folder / "state"))
        login.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        place = looped(folder, "x\n1\n2\n", "x\n3\n4\n")
        place.call("run")
        key = place.done("checkpoint", "--public-key")["public_key"]
        files = [folder / str(number) for number in (1, 2)]
        for number, file in enumerate(files, 1):
            place.done("prove", "--whole", f"walk@{number}.metrics/next.best", str(file))
        first, second = (read_proof(file.read_bytes()) for file in files)
        yield Made(place, key, first, second)


def _checked(made: Made, proof: Proof, folder: Path, *of: str) -> Any:
    """Check a proof outside the workflow. wfctl and the documented script must agree."""
    file, script = folder / "proof", HERE / "docs" / "trust" / "check_proof.py"
    file.write_text(str(proof), "utf-8")
    line = [sys.executable, "-I", "-S", str(script), str(file), made.key, *of]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    options = ["--of", *of] if of else []
    answer = call("-o", "json", "prove", "--check", str(file), "--public-key", made.key, *options)
    assert (done.returncode == 0) == (answer.code == 0), done.stderr
    return answer


@pytest.mark.long
def test_proof_of_a_number_names_its_round(made: Made, tmp_path: Path) -> None:
    """The check prints the round, and accepts the file in the folder of this round."""
    for number, proof in enumerate((made.first, made.second), 1):
        found = _checked(made, proof, tmp_path).data
        assert (found["round"], found["value"]) == (number, number)
        assert (found["what"], found["not_shown"]) == ("next.metrics/best", [])
        file = made.place.path / f"next/round-0{number}/best.json"
        assert _checked(made, proof, tmp_path, str(file)).data["value"] == number


def test_short_proof_shows_the_round(made: Made, tmp_path: Path) -> None:
    """A proof of less than 2,600 bytes still shows the round and the value."""
    file = tmp_path / "short"
    assert made.place.done("prove", "walk@1.metrics/next.best", str(file))["bytes"] < 2600
    found = _checked(made, read_proof(file.read_bytes()), tmp_path).data
    assert (found["value"], found["round"]) == (1, 1)


def test_round_in_the_claim_of_a_proof_is_refused(made: Made, tmp_path: Path) -> None:
    """Only the event may name the round, so the check refuses a claim with any round."""
    for number in ("1", "2", "7"):
        claimed = replace(made.first, claim={**made.first.claim, "round": number})
        answer = _checked(made, claimed, tmp_path)
        assert (answer.code, answer.error["code"]) == (1, "unreadable_note")
        assert "the proof has an old form" in answer.error["message"]


def test_proof_of_an_older_event_shows_no_round(made: Made, tmp_path: Path) -> None:
    """Earlier versions of wfctl recorded no round in the event. Such proofs stay valid."""
    leaf = json.loads(made.first.leaf)
    assert leaf["data"]["rests_on"].pop("round") == 1
    assert "round" not in _collect_proven_facts(leaf, _Texts(made.first.texts))


def test_number_of_an_earlier_task_is_proven_by_the_table(made: Made, tmp_path: Path) -> None:
    """If the best task was computed in an earlier round, the proof uses the task table."""
    for number, claim in enumerate(
        ({"task": "x=0", "metric": "f"}, {"output": "run/tasks.csv"}), 1
    ):
        file = tmp_path / str(number)
        made.place.done("prove", "--whole", f"walk@{number}.metrics/run.f", str(file))
        proof = read_proof(file.read_bytes())
        assert proof.claim == claim
        assert _checked(made, proof, tmp_path).data["round"] == number
    for task, code in (("x=3", 0), ("x=0", 3), ("x=77", 3)):
        assert made.place.call("prove", f"run.metrics/{task}/f").code == code


def test_proof_with_parts_of_another_round_is_rejected(made: Made, tmp_path: Path) -> None:
    """The check rejects a mix of two rounds' proofs, a changed round and a changed number."""
    first, second = made.first, made.second
    number = next(text for text in first.texts if b'"f": 1' in text)
    leaf = first.leaf.replace(b'"round":1', b'"round":2')
    assert leaf != first.leaf
    for proof in (
        replace(first, leaf=leaf),
        replace(first, leaf=second.leaf),
        replace(first, texts=second.texts),
        replace(first, texts=tuple(b'{"f": 2}\n' if one == number else one for one in first.texts)),
    ):
        answer = _checked(made, proof, tmp_path)
        assert (answer.code, answer.error["code"]) == (7, "proof_rejected")
    file = made.place.path / "next/round-02/best.json"
    assert _checked(made, first, tmp_path, str(file)).code == 7


@pytest.mark.parametrize(
    ("what", "code", "why"),
    [
        ("talk@1.metrics/next.best", "unknown_loop", "Its loops: walk"),
        ("walk@9.metrics/next.best", "not_found", "walk has no round 9; the last round is 3"),
        ("walk@3.metrics/next.best", "not_found", "round 3 of walk has not ended"),
        (
            "walk@2.metrics/next.worst",
            "not_found",
            "has no number 'next.worst'. The numbers of this round are: run.f, next.best",
        ),
        (
            "walk@2.metrics/x=1/run.f",
            "not_found",
            "has no number 'x=1/run.f'. The numbers of this round are: run.f, next.best",
        ),
    ],
)
def test_unknown_number_of_a_round_is_not_found(made: Made, what: str, code: str, why: str) -> None:
    """`wfctl prove` exits with 3 and lists the existing loops, rounds or numbers."""
    answer = made.place.json("prove", what)
    assert (answer.code, answer.error["code"]) == (3, code)
    assert why in answer.error["message"]
