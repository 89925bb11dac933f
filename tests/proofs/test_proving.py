"""A proof leads from a file to all that its result rests on, with nothing but itself and a key."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from service.proofs.checkpoint import read_checkpoint
from service.proofs.note import read_key
from service.proofs.proof import read_proof
from tests.cli.support import HERE, Place, call, write_plan
from tests.need import need_programs

PLAN: dict[str, Any] = {
    "workflow_id": "melt-2026-03-31",
    "purpose": "See it melt.",
    "stages": [
        {
            "id": "stage-1",
            "name": "Build",
            "inputs": ["in.txt"],
            "outputs": ["stage-1/out.txt", "stage-1/more.txt"],
            "success_criteria": "out.txt says hi",
            "parameters": {
                "command": "echo hi > out.txt; echo more > more.txt",
                "verify": "grep -q hi stage-1/out.txt",
                "seed": 1,
            },
        },
        {"id": "stage-2", "name": "Run", "depends_on": ["stage-1"]},
    ],
}


class Proven(NamedTuple):
    """A workflow, a proof of one of its outputs, and the public key."""

    place: Place
    file: Path
    key: str


#: Of the environment, what the programs of a test need.
KEPT = {
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "PYTHONPATH",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
}


@pytest.fixture
def computed(tmp_path: Path, state_home: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Compute a stage for real, after an amendment that a person agreed to."""
    need_programs("tmux", "flock")
    # A proof holds the names of the job's variables: it is as large as the environment is here.
    for name in os.environ.keys() - KEPT:
        monkeypatch.delenv(name)
    root = tmp_path / "root"
    root.mkdir()
    (root / "in.txt").write_text("in\n")
    plan = write_plan(tmp_path, PLAN)
    assert call("--root", str(root), "init", str(plan), "--consent", "trust").code == 0
    place = Place(root)
    place.done(
        "amend", "propose", "--stage", "stage-1", "--set", "parameters.seed=7", "--reason", "so"
    )
    place.done("--actor", "user:ann", "amend", "approve", "amend-1")
    place.done("dispatch", "stage-1", "--sync")
    place.done("stage", "complete", "stage-1", "--evidence", "it says hi")
    return place


@pytest.fixture
def proven(computed: Place, tmp_path: Path) -> Proven:
    """Prove one of the outputs, with the whole plan."""
    file = tmp_path / "out.tlog-proof"
    computed.done("prove", "--whole", "stage-1.outputs/out.txt", str(file))
    return Proven(computed, file, computed.done("checkpoint", "--public-key")["public_key"])


def _checked(proof: Proven, *arguments: str) -> Any:
    return call(
        "-o", "json", "prove", "--check", str(proof.file), "--public-key", proof.key, *arguments
    )


@pytest.mark.slow
def test_a_proof_leads_from_a_file_to_its_attempt_inputs_command_and_consent(
    proven: Proven,
) -> None:
    """And is checked where there is no workflow."""
    output = proven.place.path / "stage-1" / "out.txt"
    found = _checked(proven, "--of", str(output)).data
    assert found["claim"]["path"] == "stage-1/out.txt"
    assert found["command"] == PLAN["stages"][0]["parameters"]["command"]
    assert found["attempt"]["attempt"] == "att-0001"
    assert [one["path"] for one in found["attempt"]["inputs"]] == ["in.txt"]
    assert len(found["attempt"]["submission_sha256"]) == 64
    changes = {"parameters": {"seed": {"new": 7, "old": 1}}}
    assert found["consent"] == [
        {
            "amendment": "amend-1",
            "approved_by": "user:ann",
            "policy": "trust",
            "version": 4,
            "changes": changes,
        }
    ]
    assert found["type"] == "stage.completed"
    other = _checked(proven, "--of", str(proven.place.path / "stage-1" / "more.txt"))
    assert (other.code, other.error["code"]) == (7, "proof_rejected")


@pytest.mark.slow
def test_a_proof_has_at_most_two_and_a_half_kilobytes(computed: Place, tmp_path: Path) -> None:
    """It holds the attempt, the command and the consent; what does not fit is named."""
    file = tmp_path / "out.tlog-proof"
    assert computed.done("prove", "stage-1", str(file))["bytes"] <= 2560
    key = computed.done("checkpoint", "--public-key")["public_key"]
    found = _checked(Proven(computed, file, key)).data
    assert found["command"] == PLAN["stages"][0]["parameters"]["command"]
    assert len(found["attempt"]["submission_sha256"]) == 64
    assert [one["approved_by"] for one in found["consent"]] == ["user:ann"]
    assert found["not_shown"] == []


@pytest.mark.slow
def test_a_number_is_proven_by_the_file_that_it_stands_in(tmp_path: Path) -> None:
    """A value of an output, and one of a task; a file that is not in the proof is named by hand."""
    need_programs("tmux", "flock")
    root = tmp_path / "root"
    root.mkdir()
    sweep = {
        "command": 'echo "{\\"m\\": $WFCTL_PARAM_T}" > fit.json',
        "map": {"grid": {"T": [1, 2, 3]}},
        "task_outputs": ["fit.json"],
        "metrics": {"m": "fit.json#/m"},
    }
    stage = {"id": "stage-1", "name": "Sweep", "outputs": ["stage-1/tasks.json"]}
    plan = {"workflow_id": "sweep", "stages": [{**stage, "parameters": sweep}]}
    begin = ("init", str(write_plan(tmp_path, plan)), "--consent", "trust")
    assert call("--root", str(root), *begin).code == 0
    place = Place(root)
    place.done("run")
    key = place.done("checkpoint", "--public-key")["public_key"]
    record = next(root.glob("stage-1/.attempts/*/**/record.jsonl"))
    table = root / "stage-1" / "tasks.json"
    for what, source in (("metrics/T=2/m", record), ("outputs/tasks.json#/tasks/1/key", table)):
        file = tmp_path / source.name
        place.done("prove", f"stage-1.{what}", str(file), "--whole")
        proof = Proven(place, file, key)
        value = _checked(proof).data["value"]
        assert value == (2 if source is record else "T=2")
        assert _checked(proof, "--of", str(source)).data["value"] == value
        assert _checked(proof, "--of", str(root / "workflow-state.json")).code == 7


@pytest.mark.slow
def test_what_can_be_proven_is_a_stage_an_output_an_amendment_or_a_version(
    computed: Place, tmp_path: Path
) -> None:
    """Each is checked; an unknown name is not found."""
    file = tmp_path / "none"
    key = computed.done("checkpoint", "--public-key")["public_key"]
    for what, type_ in (
        ("stage-1", "stage.completed"),
        ("stage-1/more.txt", "stage.completed"),
        ("amend-1", "amendment.approved"),
        ("3", "amendment.proposed"),
        ("v1", "workflow.created"),
    ):
        file = tmp_path / f"{what.replace('/', '-')}.tlog-proof"
        computed.done("prove", what, str(file))
        assert _checked(Proven(computed, file, key)).data["type"] == type_
    for what in ("stage-2", "stage-1.outputs/none.txt", "amend-9", "999"):
        assert computed.json("prove", what).code == 3, what
    assert computed.json("prove").code == 2
    assert computed.json("prove", "--check", str(file)).code == 2


@pytest.mark.slow
def test_a_result_that_counts_no_longer_is_proven_as_an_event_alone(computed: Place) -> None:
    """The error says how."""
    computed.done(
        "amend", "propose", "--stage", "stage-1", "--set", "parameters.seed=8", "--reason", "so"
    )
    computed.done("--actor", "user:ann", "amend", "approve", "amend-2")
    answer = computed.json("prove", "stage-1")
    assert (answer.code, answer.error["code"]) == (3, "not_found")
    assert "wfctl prove" in answer.error["message"]


@pytest.mark.slow
def test_a_changed_proof_is_rejected_wherever_it_is_changed(proven: Proven) -> None:
    """Every line of it."""
    whole = proven.file.read_text("utf-8")
    lines = whole.split("\n")
    for number, line in enumerate(lines):
        if not line or line.startswith("\u2014"):
            continue
        at = len(line) // 2
        changed = line[:at] + ("A" if line[at] != "A" else "B") + line[at + 1 :]
        proven.file.write_text("\n".join([*lines[:number], changed, *lines[number + 1 :]]), "utf-8")
        assert _checked(proven).code in (1, 7), line


@pytest.mark.slow
def test_the_script_of_the_page_checks_a_proof_with_the_standard_library(
    proven: Proven, tmp_path: Path
) -> None:
    """At most 190 lines; it takes what holds and nothing that was changed."""
    found = re.search(
        r"```python\n(.*?)```",
        (HERE / "docs" / "trust" / "proofs.md").read_text("utf-8"),
        re.DOTALL,
    )
    assert found is not None
    assert len(found[1].splitlines()) <= 190
    script = tmp_path / "check.py"
    script.write_text(found[1], "utf-8")

    def run(file: Path, name: str = "out.txt") -> subprocess.CompletedProcess[str]:
        output = proven.place.path / "stage-1" / name
        line = [sys.executable, "-I", "-S", str(script), str(file), proven.key, str(output)]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    done = run(proven.file)
    assert done.returncode == 0, done.stderr
    shown = len(read_proof(proven.file.read_bytes()).texts) + 1
    assert done.stdout.count("  proven by ") == shown + 1, "each text, and the file"
    (proven.place.path / "stage-1" / "more.txt").write_text("another\n")
    assert run(proven.file, "more.txt").returncode != 0
    text = proven.file.read_text("utf-8")
    for old, new in (("index ", "index 1"), ("melt-2026-03-31/", "melt-2026-03-30/")):
        changed = tmp_path / "changed"
        changed.write_text(text.replace(old, new, 1), "utf-8")
        assert run(changed).returncode != 0


def _checked_by_sigstore(proof: bytes, key: str) -> None:
    """Check a proof with the code that checks the entries of Rekor; raises its errors."""
    from sigstore._internal.merkle import verify_merkle_inclusion
    from sigstore._internal.rekor.checkpoint import SignedCheckpoint
    from sigstore._internal.trust import Keyring
    from sigstore_models.common.v1 import PublicKey, PublicKeyDetails

    read, public = read_proof(proof), read_key(key)
    der = Ed25519PublicKey.from_public_bytes(public.public).public_bytes(
        Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    )
    known = PublicKey(raw_bytes=b64encode(der), key_details=PublicKeyDetails.PKIX_ED25519)
    signed = SignedCheckpoint.from_text(proof.decode().split("\n\n", 1)[1])
    signed.signed_note.verify(Keyring([known]), public.key_id)  # type: ignore[arg-type]
    inclusion = SimpleNamespace(
        log_index=read.index,
        tree_size=signed.checkpoint.log_size,
        hashes=list(read.path),
        root_hash=bytes.fromhex(signed.checkpoint.log_hash),
    )
    entry = SimpleNamespace(inclusion_proof=inclusion, canonicalized_body=read.leaf)
    verify_merkle_inclusion(SimpleNamespace(_inner=entry))  # type: ignore[arg-type]


@pytest.mark.slow
def test_an_implementation_of_others_takes_the_same_proofs(proven: Proven) -> None:
    """That of sigstore: its notes, its checkpoints, its Merkle tree."""
    from sigstore.errors import VerificationError

    _checked_by_sigstore(proven.file.read_bytes(), proven.key)
    size = read_checkpoint(read_proof(proven.file.read_bytes()).note).size
    changed = proven.file.read_text("utf-8").replace(f"\n{size}\n", f"\n{size + 1}\n")
    with pytest.raises(VerificationError):
        _checked_by_sigstore(changed.encode(), proven.key)


@pytest.mark.slow
def test_a_proof_under_a_checkpoint_that_was_cosigned_asks_for_the_witness(
    computed: Place, tmp_path: Path
) -> None:
    """A witness that is named must have signed."""
    from service.proofs.checkpoint import witness_signer
    from service.proofs.note import Note, read_note

    found = computed.done("checkpoint")
    note, signer = read_note(found["checkpoint"].encode()), witness_signer()
    both = Note(note.text, (*note.signatures, signer.cosigned(note.text, 1_795_000_000)))
    cosigned = tmp_path / "cosigned"
    cosigned.write_text(str(both), "utf-8")
    computed.done("note", "later")
    for name, options in (("with", ["--checkpoint", str(cosigned)]), ("without", [])):
        computed.done("prove", "stage-1", str(tmp_path / name), *options)
    proof = Proven(computed, tmp_path / "with", found["public_key"])
    witness = ["--public-key", str(signer.public)]
    assert _checked(proof, *witness).data["cosigned_by"] == [signer.name]
    alone = Proven(computed, tmp_path / "without", found["public_key"])
    assert _checked(alone).code == 0
    assert _checked(alone, *witness).error["code"] == "proof_rejected"


@pytest.mark.slow
def test_a_proof_of_an_adopted_result_says_that_no_job_left_it(
    computed: Place, tmp_path: Path
) -> None:
    """Another output of the stage is proven by the completion, as before."""
    (computed.path / "stage-1/out.txt").write_text("hi, by hand\n")
    computed.done("--actor", "user:ann", "verify", "stage-1", "--adopt", "--reason", "a typo")
    key = computed.done("checkpoint", "--public-key")["public_key"]
    for name, type_ in (("out.txt", "results.adopted"), ("more.txt", "stage.completed")):
        file = tmp_path / f"{name}.tlog-proof"
        computed.done("prove", f"stage-1.outputs/{name}", str(file))
        said = _checked(Proven(computed, file, key), "--of", str(computed.path / "stage-1" / name))
        assert said.data["type"] == type_
        text = call("prove", "--check", str(file), "--public-key", key).out
        line = "changed by hand and taken as it is, by user:ann (trust): a typo"
        assert (line in text) == (type_ == "results.adopted"), text


@pytest.mark.parametrize(
    ("outputs", "at", "claim"),
    [
        (["stage-1/fit.json"], "fit.json#/tc", {"output": "stage-1/fit.json", "pointer": "/tc"}),
        (["stage-1/out"], "out/fit.json#/tc", {"output": "stage-1/out"}),
        (["stage-1/fit.csv"], "fit.csv#/tc", {"output": "stage-1/fit.csv"}),
    ],
)
def test_a_number_of_a_stage_is_proven_in_its_file(
    tmp_path: Path, outputs: list[str], at: str, claim: dict[str, str]
) -> None:
    """By its place in JSON; of another file, or of one in a folder, the output is proven."""
    place = Place(tmp_path / "root")
    place.path.mkdir()
    make = "mkdir -p out; echo '{\"tc\": 2.26}' | tee fit.json > out/fit.json"
    stage = {
        "id": "stage-1",
        "name": "Fit",
        "outputs": outputs,
        "parameters": {
            "command": f"{make}; printf 'tc\\n2.26\\n' > fit.csv",
            "metrics": {"T_c": at},
        },
    }
    plan = write_plan(tmp_path, {"workflow_id": "fit", "stages": [stage]})
    place.done("init", str(plan), "--consent", "trust")
    place.done("run")
    place.done("prove", "stage-1.metrics/T_c", str(tmp_path / "proof"))
    assert read_proof((tmp_path / "proof").read_bytes()).claim == claim
    missing = place.json("prove", "stage-1.metrics/nu")
    assert missing.code == 3
    assert "(T_c), found 'nu'" in missing.error["message"]
