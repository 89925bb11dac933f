"""A witness cosigns a log that only grows, and nothing else, by the letter of its protocol."""

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

from eventstore.chain import EMPTY, Frontier, consistency_ranges, leaf_hash, nodes
from service.proofs.checkpoint import Checkpoint, log_signer, read_checkpoint, witness_signer
from service.proofs.note import Note, read_key, read_note, read_signatures, verified
from service.proofs.witness import Reply, Witness
from service.proofs.witness_server import WitnessServer
from tests.cli.support import Place

ORIGIN = "wfctl/workflow-melt/0123456789abcdef"
NOW = 1_795_000_000


class Tree(NamedTuple):
    """A log of the test, as texts."""

    texts: list[str]

    def hashes(self, size: int) -> list[bytes]:
        """Return the hashes of its first leaves."""
        return [leaf_hash(text.encode()) for text in self.texts[:size]]

    def note(self, size: int, origin: str = ORIGIN) -> str:
        """Return a signed checkpoint of its first leaves."""
        tree = Frontier()
        for leaf in self.hashes(size):
            tree.add(leaf)
        text = str(Checkpoint(origin, size, tree.root()))
        return str(Note(text, (log_signer(origin).signed(text),)))

    def proof(self, old: int, size: int) -> list[str]:
        """Return the lines of a proof."""
        ranges = consistency_ranges(old, size)
        found = nodes(self.hashes(size), ranges)
        return [b64encode(found[place]).decode() for place in ranges]

    def request(self, old: int, size: int) -> bytes:
        """Return a request that is right."""
        lines = self.proof(old, size) if old else []
        return "\n".join([f"old {old}", *lines, "", self.note(size)]).encode()


TREE = Tree([f"event {number}" for number in range(20)])


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    """Make a witness that was told of the log."""
    made = Witness(lambda: NOW, tmp_path / "witness")
    made.watch(log_signer(ORIGIN).public)
    return made


def test_a_log_that_grows_is_cosigned_again_and_again(witness: Witness) -> None:
    """With the time, by a key of the witness, over the checkpoint's text."""
    for old, size in ((0, 3), (3, 4), (4, 4), (4, 17), (17, 20)):
        reply = witness.answer(TREE.request(old, size))
        assert reply.status == 200, reply
        note = Note(read_note(TREE.note(size).encode()).text, read_signatures(reply.body))
        assert verified(note, [witness_signer().public])
        assert int.from_bytes(note.signatures[0].signature[:8], "big") == NOW


def test_a_witness_says_what_it_knows_where_the_old_size_is_another(witness: Witness) -> None:
    """409, the size and a newline, under the protocol's own type."""
    witness.answer(TREE.request(0, 5))
    known = Reply(409, "5\n", "text/x.tlog.size")
    assert witness.answer(TREE.request(0, 9)) == known
    assert witness.answer(TREE.request(3, 9)) == known
    assert witness.answer(TREE.request(0, 3)) == known


def test_a_witness_that_starts_again_knows_what_it_saw(witness: Witness, tmp_path: Path) -> None:
    """What was cosigned was kept first."""
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
def test_a_witness_refuses_with_the_status_of_the_protocol(
    witness: Witness, status: int, body: object
) -> None:
    """And what it knows is as it was."""
    witness.answer(TREE.request(0, 5))
    assert callable(body)
    assert witness.answer(body()).status == status
    seen = witness.seen(ORIGIN)
    assert seen is not None
    assert seen.checkpoint is not None
    assert seen.checkpoint.size == 5


def test_a_proof_from_nothing_is_empty_and_nothing_has_one_root(witness: Witness) -> None:
    """422 for a proof where none is needed, and for an empty log with a root of its own."""
    surplus = b"old 0\n" + b64encode(EMPTY) + b"\n\n" + TREE.note(2).encode()
    assert witness.answer(surplus).status == 422
    text = str(Checkpoint(ORIGIN, 0, b"x" * 32))
    wrong = Note(text, (log_signer(ORIGIN).signed(text),))
    assert witness.answer(b"old 0\n\n" + str(wrong).encode()).status == 422
    assert witness.answer(TREE.request(0, 0)).status == 200


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Serve the witness of this login over HTTP, and give its address."""
    with WitnessServer(Witness(lambda: NOW), "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def _watched(place: Place) -> str:
    """Tell the witness of the log, and return the witness's key."""
    place.done("witness", "watch", place.done("checkpoint", "--public-key")["public_key"])
    key: str = place.done("witness", "show")["public_key"]
    return key


def test_a_log_asks_a_witness_over_http_and_shows_what_it_signed(place: Place, served: str) -> None:
    """Twice: with nothing known, and with a proof from what is known."""
    key = _watched(place)
    place.done("checkpoint", "--witness", served, "--witness-key", key)
    for text in ("one", "two"):
        place.done("note", text)
    found = place.done("checkpoint", "--witness", served, "--witness-key", key)
    assert verified(read_note(found["checkpoint"].encode()), [read_key(key)])
    assert place.done("witness", "show")["logs"][0]["size"] == place.version()
    assert place.done("fsck", "--witness", served)["checkpoints"]["agree"] == 4
    origin = sha256(found["origin"].encode()).hexdigest()
    with urllib.request.urlopen(f"{served}/{origin}/checkpoint") as reply:
        note = read_note(reply.read())
    assert read_checkpoint(note).size == place.version()
    assert len(verified(note, [read_key(key), read_key(found["public_key"])])) == 2


def test_a_log_that_a_witness_was_not_told_of_is_not_cosigned(place: Place, served: str) -> None:
    """Exit 7, and nothing that a witness said counts without its key."""
    key = place.done("witness", "show")["public_key"]
    answer = place.json("checkpoint", "--witness", served, "--witness-key", key)
    assert (answer.code, answer.error["code"]) == (7, "not_witnessed")
    assert place.json("fsck", "--witness", served).error["code"] == "not_witnessed"
    assert place.json("checkpoint", "--witness", served).code == 2
    place.done("witness", "watch", place.done("checkpoint", "--public-key")["public_key"])
    other = place.done("checkpoint", "--public-key")["public_key"]
    wrong = place.json("checkpoint", "--witness", served, "--witness-key", other)
    assert wrong.error["code"] in ("unverified_note", "unreadable_note")


def test_a_request_is_answered_from_a_file_where_there_is_no_network(
    place: Place, tmp_path: Path
) -> None:
    """As it would have been sent."""
    place.done("witness", "watch", str(log_signer(ORIGIN).public))
    file = tmp_path / "request"
    file.write_bytes(TREE.request(0, 5))
    assert place.done("witness", "cosign", str(file))["cosignature"].startswith("\u2014 wfctl-wit")
    answer = place.json("witness", "cosign", str(file))
    assert (answer.code, answer.error["data"]["status"]) == (7, 409)


@pytest.mark.parametrize("path", ["", "x", "0" * 64 + "/checkpoint", "0" * 63 + "/checkpoint"])
def test_nothing_else_is_served(served: str, path: str) -> None:
    """404, and the server goes on."""
    with pytest.raises(urllib.error.HTTPError) as error, urllib.request.urlopen(f"{served}/{path}"):
        pass
    assert error.value.code == 404
    error.value.close()
