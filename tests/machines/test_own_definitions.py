"""Definitions that follow the reference page can be loaded, and wfctl explains each mistake."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from extensions.machines.rules.errors import InvalidDefinition
from extensions.machines.rules.soundness import load_definition

Data = dict[str, Any]
KINDS = {
    "review": ["submitted", "triaged", "read", "discussed", "decided"],
    "incident": ["reported", "confirmed", "contained", "repaired", "watched"],
    "release": ["frozen", "built", "tested", "signed", "announced"],
}


def guard(rng: random.Random, name: str, fields: Data, files: bool = True) -> Data:
    """Return a random guard (condition of a transition), and add its field to `fields`."""
    kind = rng.choice(["present", "flag", "choice", "every", "some", *(["file"] if files else [])])
    match kind:
        case "present":
            fields[name] = {"note": "text"}
            return {"present": f"{name}.note", "newer_than": "phase"}
        case "flag":
            fields[name] = {"done": "flag"}
            return {"field": f"{name}.done", "equals": True}
        case "choice":
            fields[name] = "low|high"
            return {"not": {"field": name, "equals": "low"}}
        case "every":
            fields[name] = {"*": {"status": "good|bad"}}
            return {"every": name, "status": ["good"], "newer_than": "phase"}
        case "some":
            fields[name] = [{"id": "text", "status": "good|bad"}]
            return {"some": name, "status": ["good"]}
        case _:
            return {"file": f"reports/{name}-*.json", "form": "json", "newer_than": "phase"}


def written(seed: int) -> Data:
    """Return a random machine definition that uses the keys of the reference page."""
    rng = random.Random(seed)
    kind = rng.choice(list(KINDS))
    names = KINDS[kind][: rng.randint(3, 5)]
    fields: Data = {}
    ways: list[Data] = []
    for name, to in zip(names, [*names[1:], "closed"], strict=True):
        ways.append({"from": name, "to": to, "guard": guard(rng, f"of-{name}", fields)})
    back = rng.randint(1, len(names) - 1)
    fields["again"] = "flag"
    wanted = {"field": "again", "equals": True, "newer_than": "phase"}
    ways.append({"from": names[back], "to": names[0], "loop": "once-more", "guard": wanted})
    last = ways[len(names) - 1]
    last["guard"] = {"all": [last["guard"], {"approved": "close"}]}
    ways.append(
        {"from": "stuck", "to": names[0], "resets": ["once-more"], "guard": {"approved": "go-on"}}
    )
    phases: Data = {name: {"asks": f"Have it {name}."} for name in names}
    phases[names[-1]]["person"] = "decides"
    if back == len(names) - 1 and rng.random() < 0.5:
        phases[names[-1]]["person"] = "advises"
    phases |= {"stuck": {"person": "decides"}, "closed": {"final": True}}
    return {
        "id": f"{kind}-{seed}",
        "title": f"A {kind}",
        "initial": names[0],
        "phases": phases,
        "transitions": ways,
        "loops": {"once-more": {"limit": rng.randint(1, 9), "on_limit": "stuck"}},
        "approvals": {
            "close": {"phase": names[-1], "asks": "Is it done?"},
            "go-on": {"phase": "stuck", "asks": "Shall it go on?"},
        },
        "fields": fields,
        "files": {"state": "{id}.state.json"},
    }


def _without(key: str) -> Callable[[Data], None]:
    return lambda data: data.pop(key)


def _at(*path: Any, value: Any) -> Callable[[Data], None]:
    def change(data: Data) -> None:
        here: Any = data
        for step in path[:-1]:
            here = here[step]
        here[path[-1]] = value

    return change


#: Mistakes in a definition. For each: a function that makes the mistake, the place that wfctl
#: names, and a part of the message.
BROKEN: list[tuple[Callable[[Data], None], str, str]] = [
    (_without("files"), "files", "missing"),
    (_without("phases"), "phases", "missing"),
    (_at("phase", value={}), "phase", "no field of this name"),
    (_at("initial", value="strat"), "initial", "available: "),
    (_at("loops", "once-more", "on_limit", value="stuckk"), "loops.", "did you mean stuck?"),
    (_at("transitons", value=[]), "transitons", "did you mean transitions?"),
    (_at("phases", "closed", "finall", value=True), "phases.closed.finall", "did you mean final?"),
    (_at("transitions", 0, "to", value="nowhere"), "transitions: ", "available: "),
    (_at("transitions", 0, "loop", value="often"), "transitions: ", "available: once-more"),
    (_at("loops", "once-more", "on_limit", value="sutck"), "loops.once-more.on_limit", "stuck"),
    (_at("loops", "once-more", "limit", value=0), "loops.once-more.limit", "at least 1"),
    (_at("approvals", "close", "phase", value="x"), "approvals.close.phase", "available: "),
    (_at("transitions", 0, "guard", value={"approved": "ok"}), "transitions: ", "close, go-on"),
    (
        _at("transitions", 0, "guard", value={"present": "x.y"}),
        "transitions: ",
        "add the field and its type",
    ),
    (
        _at("transitions", 0, "guard", value={"field": "again", "equals": "no"}),
        "transitions: ",
        "expected flag",
    ),
    (_at("transitions", 0, "guard", value={"when": "x"}), "transitions.0.guard", "present"),
    (_at("fields", "extra", value="string"), "fields.extra", "expected text"),
    (_at("files", value={"state": "{name}.json"}), "files.state", "{id}"),
    (_at("files", value={"sate": "{id}.json"}), "files.sate", "state"),
    (_at("files", value={"state": "/tmp/x.json"}), "files.state", "inside the root"),
    (_at("phases", "closed", value={}), "phases", "final"),
    (_at("phases", "lost", value={}), "phases.lost", "no transition"),
    (_at("phases", "closed", "person", value="must"), "phases.closed.person", "decides"),
]


@pytest.mark.parametrize("seed", range(50))
def test_definition_written_by_the_page_loads(seed: int) -> None:
    """wfctl loads the definition, stores it, and loads the stored form unchanged."""
    known = load_definition(written(seed))
    assert load_definition(known.dumped()) == known


@pytest.mark.parametrize("number", range(50))
def test_mistake_in_a_definition_is_named_with_a_fix(number: int) -> None:
    """wfctl refuses the definition with the place of the mistake and the expected value."""
    breaks, place, fix = BROKEN[number % len(BROKEN)]
    data = deepcopy(written(100 + number))
    breaks(data)
    with pytest.raises(InvalidDefinition) as refused:
        load_definition(data)
    problems = refused.value.data["problems"]
    assert any(one.startswith(place) and fix in one for one in problems), problems
