"""Showing an imported document: what nothing has changed since is shown as it came.

Somebody else's file may lack fields, hold nulls and write times in other ways. A field whose
value is still the one that was imported keeps the spelling and the place it came with.
"""

from __future__ import annotations

import json
from typing import Any

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
        shown["session_config"] = _fields(_config(now), _config(then), config)
    return shown


def _config(document: Fields) -> Fields:
    found: Fields = document.get("session_config", {})
    return found


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
