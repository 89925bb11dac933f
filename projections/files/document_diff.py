"""Find the differences between two versions of ``workflow-state.json``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple


class FieldDifference(NamedTuple):
    """A field that differs between two documents of a workflow.

    ``stage`` is the id of the stage that contains the field, or None for a field of the workflow.
    ``path`` is the path of the field inside the stage or workflow. ``kind`` is changed, added,
    removed or order. Order means that the keys of an object, or the stages, have another order. In
    this case, ``old`` and ``new`` are lists of keys.
    """

    stage: str | None
    path: tuple[str, ...]
    kind: str
    old: Any
    new: Any

    @property
    def name(self) -> str:
        """The name of the field for people, for example ``stage-2.parameters.command``."""
        steps = self.path if self.stage is None else (self.stage, *self.path)
        return ".".join(steps) or "(the whole)"


def find_differences(old: Any, new: Any) -> list[FieldDifference]:
    """Return the differences between two documents of a workflow.

    Stages are matched by id. Any other list is compared as a single value. Two values are equal
    only if their JSON texts are equal, so 1, 1.0 and true all differ.
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        return list(_compare_values(None, (), old, new))
    before, after = _map_stages(old), _map_stages(new)
    if before is None or after is None:
        return list(_compare_objects(None, (), old, new))
    rest = _compare_objects(None, (), {**old, "stages": None}, {**new, "stages": None})
    return [*rest, *_of_stages(before, after)]


def apply_differences(
    old: dict[str, Any], new: dict[str, Any], chosen: list[FieldDifference]
) -> Any:
    """Return the old document with the chosen differences applied."""
    result = deepcopy(old)
    for difference in chosen:
        if difference.kind == "order":
            continue
        if difference.path:
            _apply_difference(_get_or_create_parent_object(result, difference), difference)
        elif difference.kind == "added":
            place = [entry["id"] for entry in new["stages"]].index(difference.stage)
            result["stages"].insert(place, difference.new)
        else:
            result["stages"] = [e for e in result["stages"] if e["id"] != difference.stage]
    return result


def _get_or_create_parent_object(
    document: dict[str, Any], difference: FieldDifference
) -> dict[str, Any]:
    """Return the object in the document that contains the differing field.

    Create missing objects on the path to the field.
    """
    found: Any = document
    if difference.stage is not None:
        found = next(entry for entry in document["stages"] if entry["id"] == difference.stage)
    for step in difference.path[:-1]:
        found = found.setdefault(step, {})
    holder: dict[str, Any] = found
    return holder


def _apply_difference(holder: dict[str, Any], difference: FieldDifference) -> None:
    if difference.kind == "removed":
        del holder[difference.path[-1]]
    else:
        holder[difference.path[-1]] = difference.new


def _map_stages(document: dict[str, Any]) -> dict[str, Any] | None:
    """Return the stages by id, or None if an id is missing or occurs twice."""
    entries = document.get("stages")
    if not isinstance(entries, list):
        return None
    ids = [entry.get("id") if isinstance(entry, dict) else None for entry in entries]
    found = {id_: entry for id_, entry in zip(ids, entries, strict=True) if isinstance(id_, str)}
    return found if len(found) == len(entries) else None


def _of_stages(old: dict[str, Any], new: dict[str, Any]) -> Iterator[FieldDifference]:
    for id_, entry in old.items():
        if id_ in new:
            yield from _compare_objects(id_, (), entry, new[id_])
        else:
            yield FieldDifference(id_, (), "removed", entry, None)
    for id_, entry in new.items():
        if id_ not in old:
            yield FieldDifference(id_, (), "added", None, entry)
    yield from _compare_order(None, ("stages",), old, new)


def _compare_objects(
    stage: str | None, path: tuple[str, ...], old: dict[str, Any], new: dict[str, Any]
) -> Iterator[FieldDifference]:
    for key, value in old.items():
        if key not in new:
            yield FieldDifference(stage, (*path, key), "removed", value, None)
        elif isinstance(value, dict) and isinstance(new[key], dict):
            yield from _compare_objects(stage, (*path, key), value, new[key])
        else:
            yield from _compare_values(stage, (*path, key), value, new[key])
    for key, value in new.items():
        if key not in old:
            yield FieldDifference(stage, (*path, key), "added", None, value)
    yield from _compare_order(stage, path, old, new)


def _compare_values(
    stage: str | None, path: tuple[str, ...], old: Any, new: Any
) -> Iterator[FieldDifference]:
    if json.dumps(old) != json.dumps(new):
        yield FieldDifference(stage, path, "changed", old, new)


def _compare_order(
    stage: str | None, path: tuple[str, ...], old: dict[str, Any], new: dict[str, Any]
) -> Iterator[FieldDifference]:
    before = [key for key in old if key in new]
    after = [key for key in new if key in old]
    if before != after:
        yield FieldDifference(stage, path, "order", before, after)
