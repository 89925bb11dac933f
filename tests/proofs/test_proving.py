"""A proof connects an output with its inputs, command and consent. One public key checks it."""

from __future__ import annotations

import os
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from extensions.proofs.checkpoint import read_checkpoint
from extensions.proofs.proof import read_proof
from extensions.proofs.signed_note import read_key
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


#: Environment variables that the programs of a test need.
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


def keep_plain_environment(patch: pytest.MonkeyPatch) -> None:
    """Remove most environment variables, because each proof contains their names."""
    for name in os.environ.keys() - KEPT:
        patch.delenv(name)
    patch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")


@pytest.fixture
def computed(tmp_path: Path, state_home: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Return a workflow whose first stage was computed after an approved amendment."""
    need_programs("tmux", "flock")
    keep_plain_environment(monkeypatch)
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
    """Prove one output of the workflow. The proof contains the whole plan."""
    file = tmp_path / "out.tlog-proof"
    computed.done("prove", "--whole", "stage-1.outputs/out.txt", str(file))
    return Proven(computed, file, computed.done("checkpoint", "--public-key")["public_key"])


def _checked(proof: Proven, *arguments: str) -> Any:
    return call(
        "-o", "json", "prove", "--check", str(proof.file), "--public-key", proof.key, *arguments
    )


@pytest.mark.slow
def test_proof_shows_attempt_inputs_command_and_consent(
    proven: Proven,
) -> None:
    """The check of a proof needs no workflow, and refuses another file than the proven one."""
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
def test_short_proof_has_fewer_than_2600_bytes(computed: Place, tmp_path: Path) -> None:
    """The short proof still contains the attempt, the command and the consent."""
    file = tmp_path / "out.tlog-proof"
    assert computed.done("prove", "stage-1", str(file))["bytes"] < 2600
    key = computed.done("checkpoint", "--public-key")["public_key"]
    found = _checked(Proven(computed, file, key)).data
    assert found["command"] == PLAN["stages"][0]["parameters"]["command"]
    assert len(found["attempt"]["submission_sha256"]) == 64
    assert [one["approved_by"] for one in found["consent"]] == ["user:ann"]
    assert found["not_shown"] == []


@pytest.mark.slow
def test_number_is_proven_by_its_file(tmp_path: Path) -> None:
    """wfctl proves a number in an output or in a task's record; the check refuses other files."""
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
def test_stage_output_amendment_and_version_can_be_proven(computed: Place, tmp_path: Path) -> None:
    """`wfctl prove` accepts the name of each, and exits with 3 for an unknown name."""
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
def test_invalidated_result_is_not_proven(computed: Place) -> None:
    """If a result is invalidated, `wfctl prove` fails and names a way to prove the event alone."""
    computed.done(
        "amend", "propose", "--stage", "stage-1", "--set", "parameters.seed=8", "--reason", "so"
    )
    computed.done("--actor", "user:ann", "amend", "approve", "amend-2")
    answer = computed.json("prove", "stage-1")
    assert (answer.code, answer.error["code"]) == (3, "not_found")
    assert "wfctl prove" in answer.error["message"]


@pytest.mark.slow
def test_proof_with_a_changed_line_is_rejected(proven: Proven) -> None:
    """The check rejects a proof if one character of any line is changed."""
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
def test_script_of_the_docs_checks_proofs(proven: Proven, tmp_path: Path) -> None:
    """The documented script gives the right verdict with at most 245 lines of standard Python."""
    script = HERE / "docs" / "trust" / "check_proof.py"
    assert len(script.read_text("utf-8").splitlines()) <= 245

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


@pytest.mark.slow
def test_script_of_the_docs_reports_malformed_proofs_in_one_line(
    proven: Proven, tmp_path: Path
) -> None:
    """For any invalid file, the documented script exits with 1 and prints one line."""
    script = HERE / "docs" / "trust" / "check_proof.py"
    text, file = proven.file.read_bytes(), tmp_path / "malformed"
    changed = [text.replace(b"extra ", b"extra !", 1), text.replace(b"index ", b"index x", 1)]
    changed += [text.replace(b"\nindex ", b"\n\xff", 1), text.replace(b"\n\n", b"\n"), text[:300]]
    for content in (b"", b"\xff", b"a\n\nb", *changed):
        file.write_bytes(content)
        line = [sys.executable, "-I", "-S", str(script), str(file), proven.key]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 1, content
        assert done.stderr.count("\n") == 1, done.stderr


def _checked_by_sigstore(proof: bytes, key: str) -> None:
    """Check a proof with functions of sigstore, another program. Raises sigstore's errors."""
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
def test_sigstore_accepts_the_proofs(proven: Proven) -> None:
    """Functions of sigstore, another program, verify the proof and reject a changed one."""
    from sigstore.errors import VerificationError

    _checked_by_sigstore(proven.file.read_bytes(), proven.key)
    size = read_checkpoint(read_proof(proven.file.read_bytes()).note).size
    changed = proven.file.read_text("utf-8").replace(f"\n{size}\n", f"\n{size + 1}\n")
    with pytest.raises(VerificationError):
        _checked_by_sigstore(changed.encode(), proven.key)


@pytest.mark.slow
def test_proof_check_requires_the_named_witness(computed: Place, tmp_path: Path) -> None:
    """If the user names a witness, the check rejects a proof without the witness's signature."""
    from extensions.proofs.checkpoint import load_or_create_witness_signer
    from extensions.proofs.signed_note import Note, read_note

    found = computed.done("checkpoint")
    note, signer = read_note(found["checkpoint"].encode()), load_or_create_witness_signer()
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
def test_proof_of_an_adopted_result_says_changed_by_hand(computed: Place, tmp_path: Path) -> None:
    """The check says who adopted the edited output. Proofs of other outputs do not change."""
    (computed.path / "stage-1/out.txt").write_text("hi, by hand\n")
    computed.done("--actor", "user:ann", "verify", "stage-1", "--adopt", "--reason", "a typo")
    key = computed.done("checkpoint", "--public-key")["public_key"]
    for name, type_ in (("out.txt", "results.adopted"), ("more.txt", "stage.completed")):
        file = tmp_path / f"{name}.tlog-proof"
        computed.done("prove", f"stage-1.outputs/{name}", str(file))
        said = _checked(Proven(computed, file, key), "--of", str(computed.path / "stage-1" / name))
        assert said.data["type"] == type_
        text = call("prove", "--check", str(file), "--public-key", key).out
        line = "changed by hand and accepted, by user:ann (trust): a typo"
        assert (line in text) == (type_ == "results.adopted"), text


@pytest.mark.parametrize(
    ("name", "pointer"), [("fit.json", "/nope"), ("fit.json", "/l/-"), ("fit.csv", "/y")]
)
def test_missing_value_is_not_proven(
    tmp_path: Path, state_home: Path, name: str, pointer: str
) -> None:
    """`wfctl prove` refuses a pointer that has no value in the output."""
    command = "echo '{\"l\": [1]}' > fit.json; printf 'x\\n1\\n' > fit.csv"
    plan: dict[str, Any] = {"id": "stage-1", "name": "Fit", "outputs": [f"stage-1/{name}"]}
    plan["parameters"] = {"command": command}
    (tmp_path / "other").mkdir()
    place = Place(tmp_path / "other/root")
    place.path.mkdir()
    document = {"workflow_id": "fit", "stages": [plan]}
    place.done("init", str(write_plan(tmp_path / "other", document)), "--consent", "trust")
    place.done("run")
    refused = place.json("prove", f"stage-1.outputs/{name}#{pointer}", str(tmp_path / "proof"))
    assert (refused.code, refused.error["code"]) == (3, "not_found")
    assert f"stage-1/{name} has no value at #{pointer}" in refused.error["message"]
    assert not (tmp_path / "proof").exists()


@pytest.mark.parametrize(
    ("outputs", "at", "claim"),
    [
        (
            ["stage-1/fit.json"],
            "fit.json#/tc",
            {"output": "stage-1/fit.json", "pointer": "/tc", "metric": "T_c"},
        ),
        (["stage-1/out"], "out/fit.json#/tc", {"output": "stage-1/out"}),
        (
            ["stage-1/fit.csv"],
            "fit.csv#/tc",
            {"output": "stage-1/fit.csv", "pointer": "/tc", "metric": "T_c"},
        ),
    ],
)
def test_metric_is_proven_by_its_output(
    tmp_path: Path, outputs: list[str], at: str, claim: dict[str, str]
) -> None:
    """wfctl proves a number in a JSON file or a table. For a folder, it proves only the output."""
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
    key = place.done("checkpoint", "--public-key")["public_key"]
    output = str(place.path / claim["output"])
    of = [output] if Path(output).is_file() else []
    found = _checked(Proven(place, tmp_path / "proof", key), *(f"--of={one}" for one in of))
    assert found.data.get("value") == (2.26 if "metric" in claim else None), found
    script = str(HERE / "docs" / "trust" / "check_proof.py")
    line = [sys.executable, "-I", "-S", script, str(tmp_path / "proof"), key, *of]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ("value 2.26 of" in done.stdout) == ("metric" in claim), done
    missing = place.json("prove", "stage-1.metrics/nu")
    assert missing.code == 3
    assert (
        "no recorded number 'nu'. The recorded numbers of this stage are: T_c"
        in missing.error["message"]
    )
