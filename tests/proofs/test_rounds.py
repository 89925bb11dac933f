"""A number of a round is proven as that of a stage is, with the round that it is of."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from service.proofs.proof import Proof, read_proof
from tests.cli.support import HERE, Place, call
from tests.need import need_programs
from tests.sweeps.looped import looped

pytestmark = pytest.mark.slow


class Made(NamedTuple):
    """A loop whose third round failed, the log's public key, and whole proofs of two rounds."""

    place: Place
    key: str
    first: Proof
    second: Proof


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Compute two rounds; nobody says which points come behind the third."""
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
    """Check a proof where there is no workflow, by wfctl and by the script of the page."""
    file, script = folder / "proof", folder / "check.py"
    file.write_text(str(proof), "utf-8")
    text = (HERE / "docs" / "trust" / "proofs.md").read_text("utf-8")
    script.write_text(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], "utf-8")
    line = [sys.executable, "-I", "-S", str(script), str(file), made.key, *of]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    options = ["--of", *of] if of else []
    answer = call("-o", "json", "prove", "--check", str(file), "--public-key", made.key, *options)
    assert (done.returncode == 0) == (answer.code == 0), done.stderr
    return answer


def test_the_number_of_each_round_is_proven_with_its_round(made: Made, tmp_path: Path) -> None:
    """Its file lies in the folder of the round by now; the submission says the round."""
    for number, proof in enumerate((made.first, made.second), 1):
        found = _checked(made, proof, tmp_path).data
        assert (found["round"], found["value"]) == (str(number), number)
        assert (found["what"], found["not_shown"]) == ("next.outputs/best.json#/f", [])
        file = made.place.path / f"next/round-0{number}/best.json"
        assert _checked(made, proof, tmp_path, str(file)).data["value"] == number


def test_a_short_proof_names_the_round_as_not_shown(made: Made, tmp_path: Path) -> None:
    """The value and its file are in it."""
    file = tmp_path / "short"
    assert made.place.done("prove", "walk@1.metrics/next.best", str(file))["bytes"] <= 2560
    found = _checked(made, read_proof(file.read_bytes()), tmp_path).data
    assert (found["value"], "round" in found) == (1, False)
    assert "round 1, which the submission of the attempt says" in found["not_shown"]


def test_a_number_of_a_task_of_an_earlier_round_is_proven_by_the_table(
    made: Made, tmp_path: Path
) -> None:
    """The record of an attempt has its own tasks alone; the best one may be of before."""
    for number, claim in enumerate(
        ({"task": "x=0", "metric": "f"}, {"output": "run/tasks.csv"}), 1
    ):
        file = tmp_path / str(number)
        made.place.done("prove", "--whole", f"walk@{number}.metrics/run.f", str(file))
        proof = read_proof(file.read_bytes())
        assert proof.claim == {**claim, "round": str(number)}
        assert _checked(made, proof, tmp_path).data["round"] == str(number)
    for task, code in (("x=3", 0), ("x=0", 3), ("x=77", 3)):
        assert made.place.call("prove", f"run.metrics/{task}/f").code == code


def test_a_number_of_another_round_is_not_taken_for_that_of_this_one(
    made: Made, tmp_path: Path
) -> None:
    """Nor is one that was changed, nor the submission of another round."""
    first, second = made.first, made.second
    claimed = {**first.claim, "round": "2"}
    number = next(text for text in first.texts if b'"f": 1' in text)
    own, other = (
        next(text for text in proof.texts if b'"envs"' in text) for proof in (first, second)
    )

    def instead(old: bytes, new: bytes) -> Proof:
        return replace(first, texts=tuple(new if one == old else one for one in first.texts))

    for proof in (
        replace(first, claim=claimed),
        replace(first, claim=claimed, texts=second.texts),
        replace(first, leaf=second.leaf, claim=claimed),
        instead(number, b'{"f": 2}\n'),
        instead(own, other),
        instead(own, own.replace(b'"WFCTL_ROUND": "1"', b'"WFCTL_ROUND": "2"')),
    ):
        answer = _checked(made, proof, tmp_path)
        assert (answer.code, answer.error["code"]) == (7, "proof_rejected")
    file = made.place.path / "next/round-02/best.json"
    assert _checked(made, first, tmp_path, str(file)).code == 7


@pytest.mark.parametrize(
    ("what", "code", "why"),
    [
        ("talk@1.metrics/next.best", "unknown_loop", "this workflow has: walk"),
        ("walk@9.metrics/next.best", "not_found", "walk has no round 9; its last one is 3"),
        ("walk@3.metrics/next.best", "not_found", "round 3 of walk has not ended"),
        ("walk@2.metrics/next.worst", "not_found", "(run.f, next.best), found 'next.worst'"),
        ("walk@2.metrics/x=1/run.f", "not_found", "(run.f, next.best), found 'x=1/run.f'"),
    ],
)
def test_what_no_round_came_to_is_not_found(made: Made, what: str, code: str, why: str) -> None:
    """The error says what there is."""
    answer = made.place.json("prove", what)
    assert (answer.code, answer.error["code"]) == (3, code)
    assert why in answer.error["message"]
