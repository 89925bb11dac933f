"""wfctl and the documented script refuse at least fifty kinds of tampered proofs."""

from __future__ import annotations

import re
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from extensions.proofs.proof import read_proof
from tests.amendments.support import make_keys
from tests.cli.support import HERE, Place, agree, call, write_plan
from tests.proofs.tampering import WORD, Known, packed, tampered, unpacked

EVERY = dict(tampered())
PLAN: dict[str, Any] = {
    "workflow_id": "melt",
    "stages": [
        {
            "id": "stage-1",
            "name": "Fit",
            "outputs": ["stage-1/fit.json"],
            "parameters": {"command": "echo '{\"nu\": 0.59}' > fit.json", "seed": 1},
        },
        {
            "id": "stage-2",
            "name": "Plot",
            "depends_on": ["stage-1"],
            "outputs": ["stage-2/out.txt"],
            "parameters": {"command": "echo hi > out.txt", "seed": 1},
        },
    ],
}


class Made(NamedTuple):
    """Material to tamper with, the log's public key, and the fingerprint of a person's key."""

    known: Known
    key: str
    fingerprint: str
    script: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """Return the proofs of two stages, each computed after an amendment that a person signed."""
    folder = tmp_path_factory.mktemp("tampered")
    with pytest.MonkeyPatch.context() as login:
        login.setenv("XDG_STATE_HOME", str(folder / "state"))
        login.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        yield _made(folder)


def _made(folder: Path) -> Made:
    keys = make_keys(folder)
    root = folder / "root"
    root.mkdir()
    begin = ("init", str(write_plan(folder, PLAN)), "--consent", "signature")
    assert call("--root", str(root), *begin, "--signers", str(keys.signers)).code == 0
    agree(root, keys.allowed)
    place = Place(root)
    for number, stage in enumerate(("stage-1", "stage-2", "stage-1"), 1):
        change = ("--stage", stage, "--set", f"parameters.seed={number + 6}", "--reason", "so")
        place.done("amend", "propose", *change)
        if number < 3:
            place.done("amend", "approve", f"amend-{number}", "--key", str(keys.allowed))
    place.done("amend", "reject", "amend-3")
    place.done("run")
    proofs = []
    for number, what in enumerate(("stage-1.outputs/fit.json#/nu", "stage-2")):
        file = folder / f"{number}.tlog-proof"
        place.done("prove", "--whole", what, str(file))
        proofs.append(read_proof(file.read_bytes()))
    found = subprocess.run(
        ["ssh-keygen", "-lf", keys.allowed], capture_output=True, text=True, check=True
    )
    script = HERE / "docs" / "trust" / "check_proof.py"
    known = Known(proofs[0], proofs[1], _events(root))
    key = place.done("checkpoint", "--public-key")["public_key"]
    return Made(known, key, found.stdout.split()[1], script)


def _events(root: Path) -> list[bytes]:
    """Return the texts of all events of the log, exactly as their hashes cover them."""
    lines = call("--root", str(root), "events", "--stored").out.splitlines()
    return [
        re.sub(r',"hash":"[0-9a-f]{64}","position":[0-9]+}$', "}", one).encode() for one in lines
    ]


def _ours(made: Made, file: Path) -> Any:
    return call("-o", "json", "prove", "--check", str(file), "--public-key", made.key)


def _scripts(made: Made, file: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-I", "-S", str(made.script), str(file), made.key]
    return subprocess.run(line, capture_output=True, text=True, check=False)


@pytest.mark.long
@pytest.mark.slow
def test_valid_proof_names_the_key_that_signed_the_consent(made: Made, tmp_path: Path) -> None:
    """wfctl and the documented script print the fingerprint of the person's key."""
    file = tmp_path / "whole"
    file.write_text(str(made.known.proof), "utf-8")
    answer = _ours(made, file).data
    assert answer["what"] == "stage-1.outputs/fit.json#/nu"
    assert (answer["value"], answer["not_shown"]) == (0.59, [])
    assert {one["amendment"]: one["key"] for one in answer["consent"]} == {
        "plan": made.fingerprint,
        "amend-1": made.fingerprint,
    }
    done = _scripts(made, file)
    assert (done.returncode, done.stdout.count(f"key {made.fingerprint}")) == (0, 2), done.stderr


def test_at_least_fifty_changes_are_tested() -> None:
    """The documentation says that at least fifty kinds of tampering are tested."""
    assert len(EVERY) >= 50


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_tampered_proof_is_refused(made: Made, tmp_path: Path, name: str) -> None:
    """wfctl exits with 1 or 7 and gives the reason, and the documented script fails, too."""
    changed = EVERY[name](made.known)
    file = tmp_path / "tampered"
    file.write_bytes(changed if isinstance(changed, bytes) else str(changed).encode())
    answer, script = _ours(made, file), _scripts(made, file)
    assert answer.code in (1, 7), answer
    assert answer.error["code"] in ("proof_rejected", "unverified_note", "unreadable_note")
    assert script.returncode != 0, script.stdout


@pytest.mark.slow
def test_additional_text_in_a_proof_is_not_printed(made: Made, tmp_path: Path) -> None:
    """wfctl refuses a proof with an additional title, and the documented script ignores it."""
    lines = str(made.known.proof).split("\n")
    content = unpacked(b64decode(lines[1].removeprefix("extra ")))
    titled = content.replace(b'{"wfctl-proof"', b'{"what":"INSERTED","wfctl-proof"', 1)
    extra = b64encode(packed(titled)).decode()
    file = tmp_path / "titled"
    file.write_text("\n".join([lines[0], f"extra {extra}", *lines[2:]]), "utf-8")
    assert _ours(made, file).error["code"] == "unreadable_note"
    assert WORD not in _scripts(made, file).stdout
