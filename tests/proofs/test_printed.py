"""The check of a proof prints only content that the digests in the proof confirm."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from extensions.proofs.proof import read_proof
from tests.cli.support import HERE, Answer, Place, call, write_plan
from tests.proofs.edits import HONEST, edits_of_claim, edits_of_lines, edits_of_texts
from tests.proofs.tampering import with_head
from tests.proofs.test_proving import keep_plain_environment

pytestmark = pytest.mark.slow

FIT = '{"nu": 0.59, "sigma": 0.01, "a/b": {"~": [1, {"\\u202e\\n": "two\\nlines"}]}, "n": -0}'
#: A shell command for random bytes, which make the proven file too large for a short proof.
_NOISE = "noise=$(head -c 900 /dev/urandom | base64 -w 0)"
PLAN: dict[str, Any] = {
    "workflow_id": "melt",
    "stages": [
        {
            "id": "stage-1",
            "name": "Fit",
            "outputs": ["stage-1/fit.json"],
            "parameters": {
                "command": f"printf %s '{FIT}' > fit.json",
                "metrics": {"nu": {"at": "fit.json#/nu", "error": "#/sigma", "unit": "nm"}},
            },
        },
        {
            "id": "stage-2",
            "name": "Fit all",
            "outputs": ["stage-2/all.json"],
            "parameters": {
                "command": f'{_NOISE}; printf \'{{"nu": 0.6, "noise": "%s"}}\' $noise > all.json',
                "metrics": {"nu": "all.json#/nu"},
            },
        },
        {
            "id": "stage-3",
            "name": "Fit in two units",
            "outputs": ["stage-3/fit.json"],
            "parameters": {
                "command": 'echo \'{"v": 3.0, "s": 0.01, "n": 0.5}\' > fit.json',
                "metrics": {
                    "v": {"at": "fit.json#/v", "error": "#/s", "unit": "J"},
                    "w": {"at": "fit.json#/v", "error": "#/n", "unit": "eV"},
                },
            },
        },
    ],
}


class Made(NamedTuple):
    """A workflow, a full proof of a number, the log's public key, and the documented script."""

    place: Place
    proof: str
    key: str
    script: Path

    def check(self, proof: str, *of: str) -> Answer:
        """Check a proof with wfctl, and require the same verdict of the documented script."""
        answer, script = self.check_both(proof, *of)
        assert (script.returncode == 0) == (answer.code == 0), (answer, script)
        return answer

    def check_both(self, proof: str, *of: str) -> tuple[Answer, subprocess.CompletedProcess[str]]:
        """Check a proof with wfctl and with the documented script, and return both answers."""
        file = self.place.path.parent / "edited.tlog-proof"
        file.write_bytes(proof.encode("utf-8", "surrogatepass"))
        line = [sys.executable, "-I", "-S", str(self.script), str(file), self.key, *of]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        options = ["--of", *of] if of else []
        return call("prove", "--check", str(file), "--public-key", self.key, *options), done


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Compute the workflow, and prove a number of the first stage, with the whole file."""
    folder = tmp_path_factory.mktemp("printed")
    with pytest.MonkeyPatch.context() as login:
        keep_plain_environment(login)
        login.setenv("XDG_STATE_HOME", str(folder / "state"))
        login.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        place = Place(folder / "root")
        place.path.mkdir()
        place.done("init", str(write_plan(folder, PLAN)), "--consent", "trust")
        place.done("run")
        script = HERE / "docs" / "trust" / "check_proof.py"
        place.done("prove", "--whole", "stage-1.outputs/fit.json#/nu", str(folder / "nu"))
        key = place.done("checkpoint", "--public-key")["public_key"]
        yield Made(place, (folder / "nu").read_text("utf-8"), key, script)


def _with_claim(proof: str, words: dict[str, str]) -> str:
    return with_head(proof, lambda head: head["claim"].update(words))


def _claiming(made: Made, **claim: Any) -> str:
    return with_head(made.proof, lambda head: head.update(claim=claim))


FORGED = "/nu\n  value     0.5876\n  consent   plan by user:ada (signed with SHA256:abc)"


@pytest.mark.parametrize(
    "pointer", [FORGED, "nu", "x/nu", "/a~b", "/nu/", "/nowhere", "/a~1b/~0/-1"]
)
def test_pointer_without_a_value_is_refused(made: Made, pointer: str) -> None:
    """The check refuses a pointer that has no value, or that would print forged lines."""
    answer = made.check(_claiming(made, output="stage-1/fit.json", pointer=pointer))
    assert (answer.code, answer.out) == (7, "")
    assert answer.err.count("\n") == 1


def test_control_characters_in_a_pointer_are_escaped(made: Made) -> None:
    """The check prints a pointer and its value on one line each, with escapes."""
    pointer = "/a~1b/~0/1/\u202e\n"
    printed = made.check(_claiming(made, output="stage-1/fit.json", pointer=pointer)).out
    assert printed.startswith(r"holds: stage-1.outputs/fit.json#/a~1b/~0/1/\u202e\n, version")
    assert '\n  value     "two\\nlines"\n' in printed


def test_empty_pointer_proves_the_whole_file(made: Made) -> None:
    """`wfctl prove FILE#` proves the whole file, and the check prints its content."""
    answer = made.check(_claiming(made, output="stage-1/fit.json", pointer=""))
    assert '\n  value     {"nu": 0.59, "sigma"' in answer.out
    file = made.place.path.parent / "whole"
    made.place.done("prove", "--whole", "stage-1.outputs/fit.json#", str(file))
    assert read_proof(file.read_bytes()).claim["pointer"] == ""


def test_invalid_pointer_is_a_usage_error(made: Made) -> None:
    """`wfctl prove` exits with 2 and shows an example of a valid pointer."""
    answer = made.place.json("prove", "stage-1.outputs/fit.json#nu")
    assert (answer.code, "such as #/nu" in answer.error["message"]) == (2, True)


@pytest.mark.parametrize("letter", ["\x85", "\u202e", "\u2066", "\u2028"])
def test_invisible_characters_in_names_are_refused(made: Made, letter: str) -> None:
    """The check refuses them in the name of the log and in the names of signers."""
    origin = json.loads(read_proof(made.proof.encode()).leaf)["stream"]
    for edited in (
        made.proof.replace(f"\nwfctl/{origin}", f"\nwfctl/{letter}{origin}"),
        f"{made.proof}\u2014 other{letter} AAAAAAAA\n",
    ):
        answer = made.check(edited)
        assert (answer.code, letter in answer.err) == (1, False)


@pytest.mark.parametrize(
    "added",
    [{"title": "x"}, {"claim": {"title": "x"}}, {"wfctl-proof": 2.0}, {"claim": {"output": ["x"]}}],
    ids=str,
)
def test_unknown_key_or_type_in_a_proof_is_refused(made: Made, added: dict[str, Any]) -> None:
    """wfctl and the documented script refuse unknown keys and values of a wrong type."""

    def edit(head: dict[str, Any]) -> None:
        head.update({**added, "claim": {**head["claim"], **added.get("claim", {})}})

    assert made.check(with_head(made.proof, edit)).code == 1


def test_pointer_into_a_file_outside_the_proof_is_not_printed(made: Made, tmp_path: Path) -> None:
    """If a proof does not contain the file, the check ignores the claimed pointer."""
    whole = read_proof(made.proof.encode())
    texts = tuple(one for one in whole.texts if one != FIT.encode())
    hidden = replace(whole, texts=texts, claim={**whole.claim, "pointer": "/forged"})
    answer = made.check(str(hidden))
    assert (answer.code, "forged" in answer.out) == (0, False)
    file = str(made.place.path / "stage-1" / "fit.json")
    assert made.check(str(hidden), file).code == 7


def test_error_and_unit_are_part_of_the_proof(made: Made) -> None:
    """The check prints the number's error and unit, and refuses a proof that changes them."""
    assert "\n  value     0.59 ± 0.01 nm\n" in made.check(made.proof).out
    proof = read_proof(made.proof.encode())
    for old, new in ((b'"unit":"nm"', b'"unit":"um"'), (b'"error":0.01', b'"error":0.02')):
        assert old in proof.leaf
        assert made.check(str(replace(proof, leaf=proof.leaf.replace(old, new)))).code == 7
        texts = tuple(one.replace(b'"nm"', b'"um"') for one in proof.texts)
        assert made.check(str(replace(proof, texts=texts))).code == 7
    for words in ({"unit": "um"}, {"error": "0.02"}):
        assert made.check(_claiming(made, **proof.claim, **words)).code == 1


def test_number_is_proven_without_its_file(made: Made) -> None:
    """The event contains the number, so the check prints it even if the file is left out."""
    whole = read_proof(made.proof.encode())
    short = replace(whole, texts=tuple(one for one in whole.texts if one != FIT.encode()))
    assert short.texts != whole.texts
    assert made.check(str(short)).out == made.check(made.proof).out


@pytest.fixture(scope="module")
def honest(made: Made) -> list[tuple[str, str]]:
    """Return the output of wfctl and of the documented script for all valid proofs of the file."""
    found = []
    parts = ("", *(f".outputs/fit.json#{pointer}" for pointer in HONEST), ".outputs/fit.json")
    for number, part in enumerate(parts):
        file = made.place.path.parent / f"honest-{number}"
        made.place.done("prove", "--whole", f"stage-1{part}", str(file))
        answer, script = made.check_both(file.read_text("utf-8"))
        assert (answer.code, script.returncode) == (0, 0), (answer, script)
        found.append((answer.out, script.stdout))
    return found


@pytest.mark.long
def test_edited_claim_is_refused_or_equals_an_honest_proof(
    made: Made, honest: list[tuple[str, str]]
) -> None:
    """If the check accepts an edited claim, its output equals that of a valid proof.

    wfctl and the documented script accept the same edits.
    """
    edits, taken = [*edits_of_claim(made.proof)], 0
    for name, edited in edits:
        answer, script = made.check_both(edited)
        assert (answer.code == 0) == (script.returncode == 0), (name, answer, script)
        if answer.code == 0:
            assert (answer.out, script.stdout) in honest, name
            taken += 1
    assert len(edits) >= 200
    assert taken >= len(HONEST)


@pytest.mark.long
def test_other_edits_of_a_proof_are_refused_or_have_no_effect(made: Made) -> None:
    """If the check accepts an edit of an event, a text or a line, its output does not change."""
    before = made.check_both(made.proof)
    for name, edited in (*edits_of_texts(made.proof, 100), *edits_of_lines(made.proof)):
        answer, script = made.check_both(edited)
        assert (answer.code == 0) == (script.returncode == 0), (name, answer, script)
        if answer.code == 0:
            assert (answer.out, script.stdout) == (before[0].out, before[1].stdout), name


def test_short_proof_of_a_metric_shows_attempt_and_value(made: Made, tmp_path: Path) -> None:
    """A proof without the file has less than 2.6 kB, and still shows the attempt and the value."""
    file = tmp_path / "short"
    assert made.place.done("prove", "stage-2.metrics/nu", str(file))["bytes"] < 2600
    printed = made.check(file.read_text("utf-8")).out
    assert "\n  value     0.6\n" in printed
    assert "\n  attempt   att-0001 on " in printed
    assert "not shown attempt" not in printed


@pytest.mark.parametrize(("name", "error", "unit"), [("v", "0.01", "J"), ("w", "0.5", "eV")])
def test_proof_of_a_metric_shows_its_own_error_and_unit(
    made: Made, tmp_path: Path, name: str, error: str, unit: str
) -> None:
    """If two metrics have the same value in a file, each proof shows its own error and unit."""
    made.place.done("prove", f"stage-3.metrics/{name}", str(tmp_path / name))
    answer, script = made.check_both((tmp_path / name).read_text("utf-8"))
    assert answer.out.startswith(f"holds: stage-3.metrics/{name}, version ")
    assert f"\n  value     3.0 \u00b1 {error} {unit}\n" in answer.out
    assert f"\nerror {error}, unit {unit}\n" in script.stdout


def test_proof_of_a_value_with_two_metrics_shows_no_error_or_unit(
    made: Made, tmp_path: Path
) -> None:
    """A proof of the value alone cannot say which of the two metrics is meant."""
    made.place.done("prove", "stage-3.outputs/fit.json#/v", str(tmp_path / "v"))
    answer, script = made.check_both((tmp_path / "v").read_text("utf-8"))
    assert "\n  value     3.0\n" in answer.out
    assert "value 3.0 of" in script.stdout
    assert "error" not in script.stdout.split("\nvalue 3.0")[1]


@pytest.mark.long
def test_edited_metric_in_a_claim_is_checked_with_the_event(made: Made, tmp_path: Path) -> None:
    """The check accepts only names of metrics that the event records for the value."""
    made.place.done("prove", "stage-3.metrics/v", str(tmp_path / "v"))
    proof = (tmp_path / "v").read_text("utf-8")
    for metric, code in (("w", 0), ("x", 7), ("", 7)):
        edited = _with_claim(proof, {"metric": metric})
        assert made.check(edited).code == code, metric
    assert made.check(_with_claim(proof, {"pointer": "/s"})).code == 7
    for name, edit in edits_of_claim(proof):
        answer, script = made.check_both(edit)
        assert (answer.code == 0) == (script.returncode == 0), (name, answer, script)
