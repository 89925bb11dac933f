"""A witness (a signing observer of logs) cosigns a log only if the log grows.

Its answers follow the published protocol.
"""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest

from eventstore.merkle_tree import (
    EMPTY,
    Frontier,
    compute_node_hashes,
    consistency_ranges,
    leaf_hash,
)
from extensions.proofs.checkpoint import (
    Checkpoint,
    load_or_create_log_signer,
    load_or_create_witness_signer,
    read_checkpoint,
)
from extensions.proofs.signed_note import Note, read_key, read_note, read_signatures, verify_note
from extensions.proofs.witness import Reply, Witness
from extensions.proofs.witness_server import WitnessServer
from tests.cli.support import Place

ORIGIN = "wfctl/workflow-melt/0123456789abcdef"
NOW = 1_795_000_000


class Tree(NamedTuple):
    """A log of the tests, as the list of its texts."""

    texts: list[str]

    def hashes(self, size: int) -> list[bytes]:
        """Return the hashes of the first ``size`` texts of the log."""
        return [leaf_hash(text.encode()) for text in self.texts[:size]]

    def note(self, size: int, origin: str = ORIGIN) -> str:
        """Return a signed checkpoint of the first ``size`` texts of the log."""
        tree = Frontier()
        for leaf in self.hashes(size):
            tree.add(leaf)
        text = str(Checkpoint(origin, size, tree.root()))
        return str(Note(text, (load_or_create_log_signer(origin).signed(text),)))

    def proof(self, old: int, size: int) -> list[str]:
        """Return the lines of a proof that the log has grown from the old to the new size."""
        ranges = consistency_ranges(old, size)
        found = compute_node_hashes(self.hashes(size), ranges)
        return [b64encode(found[place]).decode() for place in ranges]

    def request(self, old: int, size: int) -> bytes:
        """Return a valid request to cosign the log after it has grown from ``old`` to ``size``."""
        lines = self.proof(old, size) if old else []
        return "\n".join([f"old {old}", *lines, "", self.note(size)]).encode()


TREE = Tree([f"event {number}" for number in range(20)])


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    """Return a witness that watches the log of the tests."""
    made = Witness(lambda: NOW, tmp_path / "witness")
    made.watch(load_or_create_log_signer(ORIGIN).public)
    return made


def test_witness_cosigns_a_growing_log(witness: Witness) -> None:
    """Each cosignature covers the text of the checkpoint and the time."""
    for old, size in ((0, 3), (3, 4), (4, 4), (4, 17), (17, 20)):
        reply = witness.answer(TREE.request(old, size))
        assert reply.status == 200, reply
        note = Note(read_note(TREE.note(size).encode()).text, read_signatures(reply.body))
        assert verify_note(note, [load_or_create_witness_signer().public])
        assert int.from_bytes(note.signatures[0].signature[:8], "big") == NOW


def test_witness_answers_a_wrong_old_size_with_its_size(witness: Witness) -> None:
    """The witness answers with status 409 and the size of the log that it has seen."""
    witness.answer(TREE.request(0, 5))
    known = Reply(409, "5\n", "text/x.tlog.size")
    assert witness.answer(TREE.request(0, 9)) == known
    assert witness.answer(TREE.request(3, 9)) == known
    assert witness.answer(TREE.request(0, 3)) == known


def test_restarted_witness_remembers_cosigned_checkpoints(witness: Witness, tmp_path: Path) -> None:
    """The witness stores each checkpoint before it cosigns the checkpoint."""
    witness.answer(TREE.request(0, 5))
    assert Witness(lambda: NOW, tmp_path / "witness").answer(TREE.request(0, 9)).status == 409


FORKED = Tree([*TREE.texts[:4], "another event", *TREE.texts[5:]])


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, lambda: b"old 0\n\n" + TREE.note(6, "wfctl/another/0123456789abcdef").encode()),
        (403, lambda: TREE.request(5, 6).replace(b"\xe2\x80\x94 wfctl", b"\xe2\x80\x94 wf", 1)),
        (403, lambda: TREE.request(5, 6)[:-21] + b"AAAA" + TREE.request(5, 6)[-17:]),
        (400, lambda: TREE.request(5, 6).replace(b"old 5", b"old 7")),
        (400, lambda: TREE.request(5, 6).replace(b"old 5", b"old 05")),
        (400, lambda: TREE.request(5, 6).replace(b"old 5", b"old -5")),
        (400, lambda: b"old 5\n" + b"AAAA\n" * 64 + b"\n" + TREE.note(6).encode()),
        (400, lambda: b"nothing"),
        (400, lambda: b"\xff\n\n\xff"),
        (422, lambda: FORKED.request(5, 9)),
        (422, lambda: FORKED.request(5, 5)),
        (422, lambda: b"old 5\n\n" + TREE.note(9).encode()),
        (422, lambda: "\n".join(["old 5", *TREE.proof(4, 9), "", TREE.note(9)]).encode()),
    ],
)
def test_witness_refuses_invalid_requests(witness: Witness, status: int, body: object) -> None:
    """The witness answers with the status of the protocol, and keeps its stored checkpoint."""
    witness.answer(TREE.request(0, 5))
    assert callable(body)
    assert witness.answer(body()).status == status
    seen = witness.seen(ORIGIN)
    assert seen is not None
    assert seen.checkpoint is not None
    assert seen.checkpoint.size == 5


def test_proof_from_an_empty_log_is_empty(witness: Witness) -> None:
    """The witness answers with 422 if a request from size 0 contains a proof of growth."""
    surplus = b"old 0\n" + b64encode(EMPTY) + b"\n\n" + TREE.note(2).encode()
    assert witness.answer(surplus).status == 422
    text = str(Checkpoint(ORIGIN, 0, b"x" * 32))
    wrong = Note(text, (load_or_create_log_signer(ORIGIN).signed(text),))
    assert witness.answer(b"old 0\n\n" + str(wrong).encode()).status == 422
    assert witness.answer(TREE.request(0, 0)).status == 200


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Serve a witness over HTTP, and yield its address."""
    with WitnessServer(Witness(lambda: NOW), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def _watched(place: Place) -> str:
    """Make the witness watch the workflow's log, and return the witness's public key."""
    place.done("witness", "watch", place.done("checkpoint", "--public-key")["public_key"])
    key: str = place.done("witness", "show")["public_key"]
    return key


def test_checkpoint_is_cosigned_over_http(place: Place, served: str) -> None:
    """The second request proves that the log has grown since the first request."""
    key = _watched(place)
    place.done("checkpoint", "--witness", served, "--witness-key", key)
    for text in ("one", "two"):
        place.done("note", text)
    found = place.done("checkpoint", "--witness", served, "--witness-key", key)
    assert verify_note(read_note(found["checkpoint"].encode()), [read_key(key)])
    assert place.done("witness", "show")["logs"][0]["size"] == place.version()
    assert place.done("fsck", "--witness", served)["checkpoints"]["agree"] == 4
    origin = sha256(found["origin"].encode()).hexdigest()
    with urllib.request.urlopen(f"{served}/{origin}/checkpoint") as reply:
        note = read_note(reply.read())
    assert read_checkpoint(note).size == place.version()
    assert len(verify_note(note, [read_key(key), read_key(found["public_key"])])) == 2


def test_witness_refuses_an_unknown_log(place: Place, served: str) -> None:
    """wfctl exits with 7, and accepts no answer of a witness without the witness's key."""
    key = place.done("witness", "show")["public_key"]
    answer = place.json("checkpoint", "--witness", served, "--witness-key", key)
    assert (answer.code, answer.error["code"]) == (7, "not_witnessed")
    assert place.json("fsck", "--witness", served).error["code"] == "not_witnessed"
    assert place.json("checkpoint", "--witness", served).code == 2
    place.done("witness", "watch", place.done("checkpoint", "--public-key")["public_key"])
    other = place.done("checkpoint", "--public-key")["public_key"]
    wrong = place.json("checkpoint", "--witness", served, "--witness-key", other)
    assert wrong.error["code"] in ("unverified_note", "unreadable_note")


def test_witness_cosigns_a_request_from_a_file(place: Place, tmp_path: Path) -> None:
    """A witness on a computer without a network answers the request in a file."""
    place.done("witness", "watch", str(load_or_create_log_signer(ORIGIN).public))
    file = tmp_path / "request"
    file.write_bytes(TREE.request(0, 5))
    assert place.done("witness", "cosign", str(file))["cosignature"].startswith("\u2014 wfctl-wit")
    answer = place.json("witness", "cosign", str(file))
    assert (answer.code, answer.error["data"]["status"]) == (7, 409)


@pytest.mark.parametrize("path", ["", "x", "0" * 64 + "/checkpoint", "0" * 63 + "/checkpoint"])
def test_other_paths_of_the_witness_server_are_not_found(served: str, path: str) -> None:
    """The server of the witness answers an unknown path with status 404."""
    with pytest.raises(urllib.error.HTTPError) as error, urllib.request.urlopen(f"{served}/{path}"):
        pass
    assert error.value.code == 404
    error.value.close()
