"""What a call answers: the command's envelope, without echo, within bounds, in terms of tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from agents.lines import call_of

#: The most bytes of an answer.
BOUND = 6000
#: What is shorter is never cut.
_SHORT = 200
#: What a part of the answer stands in, and its key or index there.
Place = tuple[Any, Any]
_EMPTY: tuple[Any, ...] = (None, "", [], {})
#: What a write's events are told by; the rest is what the caller sent.
_OF_EVENT = ("version", "type")
#: What of a refusal's data is told beside its message.
_ENOUGH = 2000


class ToolAnswer(NamedTuple):
    """Text of at most `BOUND` bytes, and whether it tells of a failure."""

    text: str
    is_error: bool


def answer_of(
    code: int, out: str, err: str, *, writes: bool, person: str | None = None
) -> ToolAnswer:
    """Return the answer of a command that ended with ``code`` and printed JSON.

    ``writes``: of its events only what the caller did not send is told. ``person``: the command
    with which a person would decide.
    """
    try:
        envelope = json.loads(out)
        succeeded = envelope["success"]
    except (ValueError, TypeError, KeyError):
        last = (err.strip().splitlines() or ["it said nothing"])[-1][:_SHORT]
        ended = "was ended" if code < 0 else f"ended with {code}"
        return failure("no_answer", f"expected an answer of wfctl; the command {ended}: {last}")
    if not succeeded:
        error = envelope["error"]
        told, actions = error.get("data"), envelope.get("next_actions")
        return failure(error["code"], error["message"], told, exit_code=code, actions=actions)
    data = _told(envelope["data"]) if writes else envelope["data"]
    version = (envelope.get("_meta") or {}).get("version")
    found = {
        "a_person_runs": person,
        "data": data,
        "next": suggested(envelope.get("next_actions")),
        "version": version,
    }
    return ToolAnswer(fitted({**lean(found), "data": said(data)}), is_error=False)


def failure(
    code: str,
    message: str,
    data: dict[str, Any] | None = None,
    exit_code: int | None = None,
    actions: Any = None,
) -> ToolAnswer:
    """Return the answer of what did not succeed; ``actions`` are what may be done instead."""
    known = dict(data or {})
    actions = suggested(known.pop("next_actions", None) or actions)
    error = {"code": code, "message": message, "exit_code": exit_code}
    if len(_compact(known)) > _ENOUGH:
        known = json.loads(fitted(lean(known), _ENOUGH))
    return ToolAnswer(
        fitted(lean({"error": {**error, "data": known}, "next": actions})), is_error=True
    )


def suggested(actions: Any) -> list[Any]:
    """Return next actions as tool calls; what is not on offer, as the command of a person."""
    known = [_suggested(action) for action in actions or [] if isinstance(action, dict)]
    # "Go on" says less than the calls that it would make.
    told = [one for one in known if one.get("tool") and "stage" not in one.get("needs", ())]
    return [one for one in known if one in told or one.get("needs") != ["stage"] or not told]


def _suggested(action: dict[str, Any]) -> dict[str, Any]:
    command = str(action.get("command", ""))
    called = None if action.get("person") else call_of(command, action.get("needs") or ())
    if called is not None:
        return {**called, "reason": action.get("reason")}
    told: dict[str, Any] = {name: action[name] for name in ("reason", "needs") if name in action}
    return {"a_person_runs": command, **told}


def lean(value: Any) -> Any:
    """Return JSON values without what is empty."""
    if isinstance(value, dict):
        kept = {key: lean(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one not in _EMPTY}
    if isinstance(value, list):
        return [lean(one) for one in value]
    return value


def said(data: Any) -> Any:
    """Return what a command answers without what is empty; its own lists are said, empty or not.

    A list that is not there would not tell "nothing differs" from "nobody looked".
    """
    if not isinstance(data, dict):
        return lean(data)
    lists: dict[str, Any] = {key: [] for key, one in data.items() if one == []}
    return {**lean(data), **lists}


def fitted(value: Any, bound: int = BOUND) -> str:
    """Return compact JSON of at most ``bound`` bytes; what was cut is counted in ``left_out``."""
    text, left = _compact(value), 0
    value = json.loads(text)  # a copy, of which parts are cut
    while len(text.encode()) > bound:
        inner, key = _heaviest(value)
        kept = len(inner[key]) // 2
        left += len(inner[key]) - kept
        is_object = isinstance(inner[key], dict)
        inner[key] = dict(list(inner[key].items())[:kept]) if is_object else inner[key][:kept]
        text = _compact({**value, "left_out": left})
    return text


def _heaviest(value: dict[str, Any]) -> Place:
    """Return where the largest text or list stands; the largest object where all are short.

    The answer itself stays an object that holds all of its own fields.
    """
    places = list(_places(value))
    plain = [place for place in places if not isinstance(place[0][place[1]], dict)]
    heaviest = max(plain, key=_weight, default=None)
    if heaviest is None or _weight(heaviest) <= _SHORT:
        return max(places, key=_weight)
    return heaviest


def _weight(place: Place) -> int:
    return len(_compact(place[0][place[1]]))


def _places(value: Any) -> Iterator[Place]:
    """Yield where each text, list and object stands that has something to cut."""
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(one, (str, list, dict)) and one:
            yield value, key
        if isinstance(one, (list, dict)):
            yield from _places(one)


def _told(data: Any) -> Any:
    if not isinstance(data, dict) or not isinstance(data.get("events"), list):
        return data
    events = [{name: one[name] for name in _OF_EVENT if name in one} for one in data["events"]]
    return {**data, "events": events}


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
