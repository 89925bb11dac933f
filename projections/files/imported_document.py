"""An imported document: a part that no event has changed is shown as it came."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from lifecycle.words.document import keys_of

Fields = dict[str, Any]


def as_it_came(now: Fields, then: Fields, source: Fields) -> Fields:
    """Return the document ``now`` in the spelling of ``source``.

    ``then`` is ``source`` as wfctl itself would have spelled it: what differs between ``then``
    and ``now`` has changed since.
    """
    shown = _fields(now, then, source)
    if "stages" in shown:
        shown["stages"] = _stages(now["stages"], then["stages"], source["stages"])
    config = source.get("session_config")
    if isinstance(config, dict):
        name = "session_config"
        shown[name] = _fields(now.get(name, {}), then.get(name, {}), config)
    return shown


def _stages(now: list[Fields], then: list[Fields], source: list[Fields]) -> list[Fields]:
    before = {stage["id"]: stage for stage in then}
    came = {stage["id"]: stage for stage in source}
    return [
        _fields(stage, before[stage["id"]], came[stage["id"]]) if stage["id"] in came else stage
        for stage in now
    ]


def _fields(now: Fields, then: Fields, source: Fields) -> Fields:
    kept = {
        key: value if _same(now, then, key) else now[key]
        for key, value in source.items()
        if key in now or key not in then
    }
    added = {
        key: value for key, value in now.items() if key not in source and not _same(now, then, key)
    }
    return kept | added


def _same(now: Fields, then: Fields, key: str) -> bool:
    if (key in now) != (key in then):
        return False
    # As text, since True equals 1 in Python and is another value in a file.
    return json.dumps(now.get(key)) == json.dumps(then.get(key))


def spelled(text: str, source: Mapping[str, Any], spelling: Mapping[str, str]) -> str:
    """Return a rendered document with those numbers of it that came in other letters in those.

    ``text`` is JSON; ``spelling`` holds each such number's letters by its pointer in ``source``.
    """
    mark = _unused(text)
    document = json.loads(text)
    places = {stage["id"]: str(place) for place, stage in enumerate(document["stages"])}
    for pointer, letters in spelling.items():
        keys = keys_of(pointer)
        value = _at(source, keys)
        keys = _moved(keys, source, places)
        holder: Any = _at(document, keys[:-1]) if keys else None
        if (
            keys
            and _is_same(json.loads(letters), value)
            and _is_same(_at(holder, keys[-1:]), value)
        ):
            holder[_key(holder, keys[-1])] = f"{mark}{letters}"
    shown = json.dumps(document, indent=2, ensure_ascii=False)
    return re.sub(f'"{mark}([^"]*)"', r"\1", shown)


def _unused(text: str) -> str:
    number = 0
    while (mark := f"number-{number}:") in text:
        number += 1
    return mark


def _moved(keys: list[str], source: Mapping[str, Any], places: Mapping[str, str]) -> list[str]:
    """Return where a number stands now: a stage keeps its id, but not its place."""
    if len(keys) < 2 or keys[0] != "stages":
        return keys
    place = places.get(source["stages"][int(keys[1])]["id"])
    return [] if place is None else ["stages", place, *keys[2:]]


def _is_same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and json.dumps(one) == json.dumps(other)


def _at(value: Any, keys: list[str]) -> Any:
    for key in keys:
        try:
            value = value[_key(value, key)]
        except (LookupError, TypeError, ValueError):
            return None
    return value


def _key(holder: Any, key: str) -> Any:
    return int(key) if isinstance(holder, list) else key
