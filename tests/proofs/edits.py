"""Edits of a valid proof. Almost every edited proof must be refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from extensions.proofs.proof import Proof, read_proof
from tests.proofs.tampering import with_head, with_line

Place = tuple[str | int, ...]
#: JSON values, as text, that replace a value in the first line of a proof's content.
LETTERS = (
    *("1e400", "NaN", "-Infinity", "-0", "1", "1.0", "2.0", "2e0", "true", "null", "[]", "{}"),
    *("1234567890123456789012345678901234567890", '""', '"2"', '"\\u002fnu"', '"/nu\\u000a"'),
    *('"\\ud800"', '"/nu\\u2028  value     1"', '"\u202e"', '"/sigma"', '"stage-1\\/fit.json"'),
)
#: Paths of the values to replace in the first line of a proof's content.
PLACES: tuple[Place, ...] = (
    *(("wfctl-proof",), ("lengths",), ("lengths", 0), ("lengths", -1)),
    *(("claim",), ("claim", "output"), ("claim", "pointer")),
)
#: JSON pointers to values that exist in the proven file.
HONEST = ("", "/nu", "/sigma", "/n", "/a~1b", "/a~1b/~0", "/a~1b/~0/0", "/a~1b/~0/1/\u202e\n")
POINTERS = (
    *HONEST,
    *(
        "/",
        "/~",
        "//nu",
        "/nu/",
        "/nu/0",
        "nu",
        "#/nu",
        "/NU",
        "/nu ",
        " /nu",
        "/nu\n",
        "/nu\u2028",
    ),
    *("/a/b", "/a~2b", "/a~1b/~0/00", "/a~1b/~0/-", "/a~1b/~0/-1", "/a~1b/~0/+0", "/a~1b/~0/ 0"),
    *("/a~1b/~0/0_0", "/a~1b/~0/\u0660", "/a~1b/~0/2", "/NU", "/a~1b/~0/1/x", "/nu\x1b[2J\x9b1m"),
)
_MARK = "\uf8ff"


def edits_of_claim(proof: str) -> Iterator[tuple[str, str]]:
    """Yield edits of the first line of a proof's content, which claims what is proven.

    Each edit is a name and the edited proof.
    """
    for place in PLACES:
        for letters in LETTERS:
            yield f"{place} is {letters}", _with_letters(proof, place, letters)
        yield f"{place} is nested", _edited_at(proof, place, lambda old: [old])
        yield f"{place} is nested by name", _edited_at(proof, place, lambda old: {"x": old})
        yield f"{place} is a string", _edited_at(proof, place, str)
        yield f"{place} is removed", with_head(proof, partial(_remove, place=place))
    for key in ("wfctl-proof", "lengths", "claim", "output", "pointer"):
        name = f'"{key}":'.encode()
        for first in (b"0", b'"/sigma"', b"[]", b"{}"):
            twice = partial(_swap, old=name, new=name + first + b"," + name)
            yield f"{key} twice, {first!r}", with_line(proof, twice)
        yield f"{key} behind a blank", with_line(proof, partial(_swap, old=name, new=name + b" "))
    for words in ({"round": "1"}, {"unit": "m"}, {"error": "1"}, {"value": "1"}, {"task": "x"}):
        yield f"claim with {words}", _with_claim(proof, words)
        yield f"beside the claim {words}", with_head(proof, partial(_update, words=words))
    for claim in ({"task": "x", "metric": "nu"}, {"pointer": "/nu"}, {"metric": "nu"}, {}):
        yield f"only {claim}", with_head(proof, partial(_update, words={"claim": claim}))
    for pointer in POINTERS:
        yield f"pointer {pointer!r}", _with_claim(proof, {"pointer": pointer})


def edits_of_texts(text: str, count: int) -> Iterator[tuple[str, str]]:
    """Yield random edits of the proven event and of the texts. They are the same in each run."""
    proof, dice = read_proof(text.encode()), random.Random(7)
    for number in range(count):
        at = dice.randrange(len(proof.texts) + 1)
        old = (proof.leaf, *proof.texts)[at]
        value = json.loads(old)
        place = dice.choice([*_places(value)])
        how = dice.choice((_remove, _nest, _retype, _change))
        how(value, place)
        new = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
        yield f"{number}: {how.__name__} {place} of text {at}", str(_with_text(proof, at, new))


def edits_of_lines(proof: str) -> Iterator[tuple[str, str]]:
    """Yield edits of the proof's lines around its content, such as the index and signatures."""
    lines = proof.split("\n")
    index = lines[2].removeprefix("index ")
    for new in (f"0{index}", f"+{index}", f"{index} ", f" {index}", f"{index}.0", "\u0665", "-1"):
        yield f"index {new}", "\n".join([*lines[:2], f"index {new}", *lines[3:]])
    for number, line in enumerate(lines):
        for new in (f"{line} ", f" {line}", f"{line}=", f"{line}\r", f"{line}\x00"):
            edited = "\n".join([*lines[:number], new, *lines[number + 1 :]])
            yield f"line {number} is {new[:9]!r}{new[-3:]!r}", edited
    for signature in ("x", "a AAAA", "a+b AAAAAAAA", "a\u202e AAAAAAAA", "a b AAAAAAAA", "a AB=="):
        yield f"signature {signature!r}", f"{proof}\u2014 {signature}\n"
    yield "a signature without its dash", f"{proof}a AAAAAAAA\n"
    yield "a signature of others", f"{proof}\u2014 others AAAAAAAA\n"
    yield "no end", proof.removesuffix("\n")
    yield "two ends", f"{proof}\n"
    yield "ends as of another system", proof.replace("\n", "\r\n")


def _with_claim(proof: str, words: dict[str, str]) -> str:
    return with_head(proof, lambda head: head["claim"].update(words))


def _update(head: dict[str, Any], words: dict[str, Any]) -> None:
    head.update(words)


def _with_letters(proof: str, place: Place, letters: str) -> str:
    marked = _edited_at(proof, place, lambda _: _MARK)
    new = letters.encode("utf-8", "surrogatepass")
    return with_line(marked, lambda line: line.replace(f'"{_MARK}"'.encode(), new))


def _edited_at(proof: str, place: Place, edit: Callable[[Any], Any]) -> str:
    def change(head: Any) -> None:
        holder = _holder(head, place)
        holder[place[-1]] = edit(holder[place[-1]])

    return with_head(proof, change)


def _swap(line: bytes, old: bytes, new: bytes) -> bytes:
    assert old in line
    return line.replace(old, new, 1)


def _holder(value: Any, place: Place) -> Any:
    for key in place[:-1]:
        value = value[key]
    return value


def _places(value: Any, at: Place = ()) -> Iterator[Place]:
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield (*at, key)
        yield from _places(value[key], (*at, key))


def _remove(value: Any, place: Place) -> None:
    del _holder(value, place)[place[-1]]


def _nest(value: Any, place: Place) -> None:
    holder = _holder(value, place)
    holder[place[-1]] = [holder[place[-1]]]


def _retype(value: Any, place: Place) -> None:
    holder = _holder(value, place)
    old = holder[place[-1]]
    holder[place[-1]] = float(old) if type(old) is int else f"{old}"
    if isinstance(old, str):
        holder[place[-1]] = {old: old}


def _change(value: Any, place: Place) -> None:
    _holder(value, place)[place[-1]] = "FORGED\n  value     1"


def _with_text(proof: Proof, at: int, new: bytes) -> Proof:
    if at == 0:
        return replace(proof, leaf=new)
    return replace(proof, texts=(*proof.texts[: at - 1], new, *proof.texts[at:]))
