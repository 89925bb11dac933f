"""Convert the output of a wfctl command to the answer of an MCP tool call.

Answers have a size limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from extensions.agents.command_lines import convert_to_tool_call

#: Maximum size of an answer in bytes.
BOUND = 6000
#: Strings and lists shorter than this number of bytes are not cut if anything longer can be cut.
_SHORT = 200
#: A value in the answer: the dictionary or list that contains the value, and its key or index.
Place = tuple[Any, Any]
_EMPTY: tuple[Any, ...] = (None, "", [], {})
#: Fields of an event that the answer to a write includes. All other fields are left out, because
#: the caller sent them.
_OF_EVENT = ("version", "type")
#: Maximum size in bytes of the data in the answer of a failed call.
_ENOUGH = 2000


class ToolAnswer(NamedTuple):
    """The answer of a tool call: its text, and whether the call failed.

    The text has at most `BOUND` bytes.
    """

    text: str
    is_error: bool


def answer_of(
    code: int, out: str, err: str, *, writes: bool, person: str | None = None
) -> ToolAnswer:
    """Return the answer of a command that exited with ``code`` and printed JSON.

    With ``writes``, recorded events are shortened, because the caller sent most of their content.
    ``person`` is the command with which a person decides, if a decision is pending. Output without
    valid JSON results in a failure.
    """
    try:
        envelope = json.loads(out)
        succeeded = envelope["success"]
    except (ValueError, TypeError, KeyError):
        last = (err.strip().splitlines() or ["it said nothing"])[-1][:_SHORT]
        ended = "was ended" if code < 0 else f"ended with {code}"
        return build_failure(
            "no_answer", f"expected an answer of wfctl; the command {ended}: {last}"
        )
    if not succeeded:
        error = envelope["error"]
        told, actions = error.get("data"), envelope.get("next_actions")
        return build_failure(error["code"], error["message"], told, exit_code=code, actions=actions)
    data = _shorten_events(envelope["data"]) if writes else envelope["data"]
    version = (envelope.get("_meta") or {}).get("version")
    found = {
        "a_person_runs": person,
        "data": data,
        "next": suggest_calls(envelope.get("next_actions")),
        "version": version,
    }
    return ToolAnswer(
        dump_json_within_bound({**drop_empty(found), "data": drop_empty_except_top_lists(data)}),
        is_error=False,
    )


def build_failure(
    code: str,
    message: str,
    data: dict[str, Any] | None = None,
    exit_code: int | None = None,
    actions: Any = None,
) -> ToolAnswer:
    """Return the answer of a failed tool call. ``actions`` are the suggested next actions."""
    known = dict(data or {})
    actions = suggest_calls(known.pop("next_actions", None) or actions)
    error = {"code": code, "message": message, "exit_code": exit_code}
    if len(_dump_compact(known)) > _ENOUGH:
        known = json.loads(dump_json_within_bound(drop_empty(known), _ENOUGH))
    return ToolAnswer(
        dump_json_within_bound(drop_empty({"error": {**error, "data": known}, "next": actions})),
        is_error=True,
    )


def suggest_calls(actions: Any) -> list[Any]:
    """Return the suggested next actions as tool calls.

    An action without a suitable tool is returned as a command for a person.
    """
    known = [_suggest_call(action) for action in actions or [] if isinstance(action, dict)]
    # A call in which the agent must fill in the stage is less helpful than a call that names its
    # stage. If calls name their stage, leave out the calls that lack only the stage.
    complete = [one for one in known if one.get("tool") and "stage" not in one.get("needs", ())]
    return [one for one in known if not complete or one.get("needs") != ["stage"]]


def _suggest_call(action: dict[str, Any]) -> dict[str, Any]:
    command = str(action.get("command", ""))
    called = (
        None if action.get("person") else convert_to_tool_call(command, action.get("needs") or ())
    )
    if called is not None:
        return {**called, "reason": action.get("reason")}
    told: dict[str, Any] = {name: action[name] for name in ("reason", "needs") if name in action}
    return {"a_person_runs": command, **told}


def drop_empty(value: Any) -> Any:
    """Return JSON values without nulls, empty strings, empty lists and empty objects."""
    if isinstance(value, dict):
        kept = {key: drop_empty(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one not in _EMPTY}
    if isinstance(value, list):
        return [drop_empty(one) for one in value]
    return value


def drop_empty_except_top_lists(data: Any) -> Any:
    """Return the data of a command without empty values, except top-level lists.

    Without an empty list, the reader could not distinguish "nothing differs" from "not checked".
    """
    if not isinstance(data, dict):
        return drop_empty(data)
    lists: dict[str, Any] = {key: [] for key, one in data.items() if one == []}
    return {**drop_empty(data), **lists}


def dump_json_within_bound(value: Any, bound: int = BOUND) -> str:
    """Return a value as compact JSON of at most ``bound`` bytes.

    The largest parts are cut as often as necessary. The field ``left_out`` then contains the number
    of characters and entries that were removed.
    """
    text, left = _dump_compact(value), 0
    value = json.loads(text)  # Parse a copy, because parts of the copy are removed.
    while len(text.encode()) > bound:
        inner, key = _find_part_to_cut(value)
        kept = len(inner[key]) // 2
        left += len(inner[key]) - kept
        is_object = isinstance(inner[key], dict)
        inner[key] = dict(list(inner[key].items())[:kept]) if is_object else inner[key][:kept]
        text = _dump_compact({**value, "left_out": left})
    return text


def _find_part_to_cut(value: dict[str, Any]) -> Place:
    """Return the place of the part of an answer to cut next.

    This is the largest string or list, or the largest object if all strings and lists are short.
    The top-level object keeps all of its fields. If one entry makes up most of a list or object,
    that entry is cut and the others stay.
    """
    places = list(_iterate_places(value))
    places = [place for place in places if not _has_dominant_entry(place)] or places
    plain = [place for place in places if not isinstance(place[0][place[1]], dict)]
    heaviest = max(plain, key=_measure_place, default=None)
    if heaviest is None or _measure_place(heaviest) <= _SHORT:
        return max(places, key=_measure_place)
    return heaviest


def _has_dominant_entry(place: Place) -> bool:
    value = place[0][place[1]]
    if isinstance(value, str):
        return False
    entries = value.values() if isinstance(value, dict) else value
    largest = max(len(_dump_compact(one)) for one in entries)
    return largest > max(_SHORT, _measure_place(place) // 2)


def _measure_place(place: Place) -> int:
    return len(_dump_compact(place[0][place[1]]))


def _iterate_places(value: Any) -> Iterator[Place]:
    """Yield the place of each string, list and object that is not empty."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(one, (str, list, dict)) and one:
            yield value, key
        if isinstance(one, (list, dict)):
            yield from _iterate_places(one)


def _shorten_events(data: Any) -> Any:
    if not isinstance(data, dict) or not isinstance(data.get("events"), list):
        return data
    events = [{name: one[name] for name in _OF_EVENT if name in one} for one in data["events"]]
    return {**data, "events": events}


def _dump_compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
