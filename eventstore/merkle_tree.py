"""The Merkle tree over the events of a log, with proofs of inclusion and consistency."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256

Range = tuple[int, int]
#: Root hash of a Merkle tree without leaves.
EMPTY = sha256().digest()


def leaf_hash(leaf: bytes) -> bytes:
    """Return the hash of a leaf of a Merkle tree."""
    return sha256(b"\x00" + leaf).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return the hash of the Merkle tree node above the nodes with the given two hashes."""
    return sha256(b"\x01" + left + right).digest()


class Frontier:
    """A growing Merkle tree, stored as the roots of its complete subtrees, the widest first.

    The number of stored roots is the number of 1 bits in the tree's size, which makes a frontier
    small enough to be saved after every event.
    """

    __slots__ = ("peaks", "size")

    def __init__(self, size: int = 0, peaks: Iterable[bytes] = ()) -> None:
        self.size = size
        self.peaks = list(peaks)
        if len(self.peaks) != size.bit_count():
            raise ValueError(f"expected {size.bit_count()} peaks for {size} leaves")

    def add(self, leaf: bytes) -> None:
        """Append a leaf, given as its hash, to the tree."""
        size, peaks = self.size, self.peaks
        while size & 1:
            leaf = sha256(b"\x01" + peaks.pop() + leaf).digest()
            size >>= 1
        peaks.append(leaf)
        self.size += 1

    def root(self) -> bytes:
        """Return the current root of the tree."""
        return _fold_peaks(self.peaks) if self.peaks else EMPTY

    def append_leaf_and_yield_subtrees(self, leaf: bytes) -> Iterator[tuple[Range, bytes]]:
        """Append a leaf to the tree, and yield the range and root of each newly complete subtree.

        The yielded subtrees all end with the new leaf, the smallest first.
        """
        self.size += 1
        width, end, peaks = 1, self.size, self.peaks
        yield (end - 1, end), leaf
        while end % (2 * width) == 0:
            leaf = node_hash(peaks.pop(), leaf)
            width *= 2
            yield (end - width, end), leaf
        peaks.append(leaf)

    def iterate_suffix_roots(self) -> Iterator[tuple[Range, bytes]]:
        """Yield the ranges that start with a complete subtree and end with the last leaf.

        Each range is yielded with its root hash.
        """
        first = self.size
        for number in range(len(self.peaks) - 1, -1, -1):
            first -= first & -first
            yield (first, self.size), _fold_peaks(self.peaks[number:])


def _fold_peaks(peaks: Sequence[bytes]) -> bytes:
    root = peaks[-1]
    for peak in reversed(peaks[:-1]):
        root = node_hash(peak, root)
    return root


def compute_node_hashes(leaves: Iterable[bytes], wanted: Iterable[Range]) -> dict[Range, bytes]:
    """Compute the root hashes of the `wanted` ranges from the hashes of all leaves in order.

    Ranges that are not nodes of the Merkle tree are missing in the returned dictionary.
    """
    asked, found, tree = set(wanted), dict[Range, bytes](), Frontier()
    for leaf in leaves:
        found.update(
            (place, root)
            for place, root in tree.append_leaf_and_yield_subtrees(leaf)
            if place in asked
        )
    found.update((place, root) for place, root in tree.iterate_suffix_roots() if place in asked)
    return found


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """Return the nodes that prove that a Merkle tree of `size` leaves contains leaf `index`.

    The nodes are in order from the leaf to the root.
    """
    first, end, path = 0, size, list[Range]()
    while end - first > 1:
        middle = first + _largest_power_below(end - first)
        if index < middle:
            path.append((middle, end))
            end = middle
        else:
            path.append((first, middle))
            first = middle
    return path[::-1]


def consistency_ranges(old: int, size: int) -> list[Range]:
    """Return the nodes that prove that a larger Merkle tree continues a smaller one.

    The smaller tree has `old` leaves (1 to `size`), the larger one has `size` leaves. The proof
    shows that the first `old` leaves are the same in both.
    """
    first, end, path, is_whole = 0, size, list[Range](), True
    while old != end:
        middle = first + _largest_power_below(end - first)
        if old <= middle:
            path.append((middle, end))
            end = middle
        else:
            path.append((first, middle))
            first, is_whole = middle, False
    return ([] if is_whole else [(first, end)]) + path[::-1]


def _largest_power_below(count: int) -> int:
    """Return the largest power of two that is smaller than `count`."""
    return 1 << (count - 1).bit_length() - 1


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes) -> bool:
    """Return whether the proof connects a leaf to the root hash of a Merkle tree.

    `leaf` is the hash of the leaf, `index` its place among the `size` leaves of the tree.
    """
    if not 0 <= index < size or len(proof) != len(inclusion_ranges(index, size)):
        return False
    last = size - 1
    for beside in proof:
        if index & 1 or index == last:
            leaf = node_hash(beside, leaf)
            while not index & 1 and index:
                index, last = index >> 1, last >> 1
        else:
            leaf = node_hash(leaf, beside)
        index, last = index >> 1, last >> 1
    return leaf == root


def is_consistent(
    old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]
) -> bool:
    """Return whether the proof shows that a Merkle tree continues an older one.

    The older tree has `old` leaves and the root hash `old_root`. The newer tree has `size` leaves
    and the root hash `root`.
    """
    if old == 0:
        return not proof and old_root == EMPTY
    if old >= size:
        return old == size and not proof and old_root == root
    path = list(proof) if old & (old - 1) else [old_root, *proof]
    if len(path) != len(consistency_ranges(old, size)) + (0 if old & (old - 1) else 1):
        return False
    at, last = old - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    before = now = path[0]
    for beside in path[1:]:
        if at & 1 or at == last:
            before, now = node_hash(beside, before), node_hash(beside, now)
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            now = node_hash(now, beside)
        at, last = at >> 1, last >> 1
    return before == old_root and now == root
