"""The Merkle tree (a tree of hashes) equals the definition in RFC 6962."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventstore.merkle_tree import (
    EMPTY,
    Frontier,
    compute_node_hashes,
    consistency_ranges,
    inclusion_ranges,
    is_consistent,
    is_included,
    leaf_hash,
)

LEAVES = st.lists(st.binary(max_size=8), min_size=1, max_size=70)


def _root(leaves: list[bytes]) -> bytes:
    """Return the root of the tree, as section 2.1 of RFC 6962 defines it."""
    if not leaves:
        return sha256().digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return sha256(b"\x01" + _root(leaves[:k]) + _root(leaves[k:])).digest()


def _path(m: int, leaves: list[bytes]) -> list[bytes]:
    """Return the audit path of leaf m, as section 2.1.1 of RFC 6962 defines it."""
    if len(leaves) == 1:
        return []
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    if m < k:
        return [*_path(m, leaves[:k]), _root(leaves[k:])]
    return [*_path(m - k, leaves[k:]), _root(leaves[:k])]


def _subproof(m: int, leaves: list[bytes], is_whole: bool) -> list[bytes]:
    """Return the consistency proof, as section 2.1.2 of RFC 6962 defines it."""
    if m == len(leaves):
        return [] if is_whole else [_root(leaves)]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    if m <= k:
        return [*_subproof(m, leaves[:k], is_whole), _root(leaves[k:])]
    return [*_subproof(m - k, leaves[k:], False), _root(leaves[:k])]


def _grown(leaves: list[bytes]) -> Frontier:
    tree = Frontier()
    for leaf in leaves:
        tree.add(leaf_hash(leaf))
    return tree


def _included(leaves: list[bytes], index: int) -> list[bytes]:
    ranges = inclusion_ranges(index, len(leaves))
    found = compute_node_hashes(map(leaf_hash, leaves), ranges)
    return [found[place] for place in ranges]


def _consistent(leaves: list[bytes], old: int) -> list[bytes]:
    ranges = consistency_ranges(old, len(leaves))
    found = compute_node_hashes(map(leaf_hash, leaves), ranges)
    return [found[place] for place in ranges]


def test_tree_without_leaves_has_the_hash_of_nothing() -> None:
    """RFC 6962 defines the root in section 2.1."""
    assert Frontier().root() == EMPTY == _root([])


@given(LEAVES, st.data())
def test_restored_tree_grows_to_the_same_root(leaves: list[bytes], data: st.DataObject) -> None:
    """A tree that is stored and restored from its peaks gets the root of the definition."""
    stop = data.draw(st.integers(0, len(leaves)))
    begun = _grown(leaves[:stop])
    tree = Frontier(begun.size, list(begun.peaks))
    for leaf in leaves[stop:]:
        tree.add(leaf_hash(leaf))
    assert tree.root() == _root(leaves)


@given(LEAVES, st.data())
def test_inclusion_proof_equals_the_definition(leaves: list[bytes], data: st.DataObject) -> None:
    """The proof is valid for no other leaf, index, size or root."""
    index = data.draw(st.integers(0, len(leaves) - 1))
    proof, root, size = _included(leaves, index), _root(leaves), len(leaves)
    leaf = leaf_hash(leaves[index])
    assert proof == _path(index, leaves)
    assert is_included(leaf, index, size, proof, root)
    assert not is_included(leaf_hash(b"another" * 3), index, size, proof, root)
    assert not is_included(leaf, size, size, proof, root)
    assert not is_included(leaf, index, size, [*proof, root], root)
    assert not is_included(leaf, index, size, proof, leaf_hash(root))
    for n in range(len(proof)):
        other = [*proof[:n], leaf_hash(proof[n]), *proof[n + 1 :]]
        assert not is_included(leaf, index, size, other, root)
        assert not is_included(leaf, index, size, proof[:n] + proof[n + 1 :], root)


@given(LEAVES, st.data())
def test_consistency_proof_equals_the_definition(leaves: list[bytes], data: st.DataObject) -> None:
    """The proof that a tree extends an earlier tree is valid for no other earlier tree."""
    old = data.draw(st.integers(1, len(leaves)))
    proof, size = _consistent(leaves, old), len(leaves)
    before, now = _root(leaves[:old]), _root(leaves)
    assert proof == _subproof(old, leaves, True)
    assert is_consistent(old, before, size, now, proof)
    assert not is_consistent(old, leaf_hash(before), size, now, proof)
    assert not is_consistent(old, before, size, leaf_hash(now), proof)
    assert not is_consistent(old, before, size, now, [*proof, now])
    for n in range(len(proof)):
        other = [*proof[:n], leaf_hash(proof[n]), *proof[n + 1 :]]
        assert not is_consistent(old, before, size, now, other)


def test_every_tree_is_consistent_with_the_empty_tree() -> None:
    """The proof for the empty tree is empty. No tree extends a longer tree."""
    assert is_consistent(0, EMPTY, 3, b"r" * 32, [])
    assert not is_consistent(0, EMPTY, 3, b"r" * 32, [b"x" * 32])
    assert not is_consistent(4, b"r" * 32, 3, b"r" * 32, [])


def test_stored_tree_with_too_few_peaks_is_refused() -> None:
    """An incomplete record of a tree raises an error."""
    with pytest.raises(ValueError, match="2 peaks"):
        Frontier(3, [b"x" * 32])


def test_memory_does_not_grow_with_the_tree() -> None:
    """The stored tree has one peak (hash of a full subtree) for each set bit of its size."""
    tree = Frontier()
    for number in range(5000):
        tree.add(leaf_hash(str(number).encode()))
    assert len(tree.peaks) == (5000).bit_count()
