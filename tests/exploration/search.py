"""Explore every reachable state of a small workflow, breadth first, by the real rules and fold.

A state is a log and its folded workflow. A move is a command, or a change that another program
makes to the log. The first violation that the search finds has a shortest path of moves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from extensions.protocol_check.behaviour import first_breach
from lifecycle.errors import LifecycleError
from lifecycle.fold.evolve import fold_events
from lifecycle.payload.models import Payload
from lifecycle.rules.decide import decide
from lifecycle.state.workflow import Workflow
from tests.exploration.state_key import compute_state_key

AT = "2026-03-31T10:00:00.000000Z"


class Entry(NamedTuple):
    """A recorded event, with the fields that the fold and the protocol check read."""

    type: str
    data: dict[str, Any]
    version: int
    hash: str
    prev_hash: str
    actor: str
    command_id: str
    occurred_at: str = AT


class Log(NamedTuple):
    """A log: the entries of its last command, and the log before this command."""

    before: Log | None
    entries: tuple[Entry, ...]

    def read(self) -> list[Entry]:
        """Return all entries, the oldest first."""
        log: Log | None = self
        parts = []
        while log is not None:
            parts.append(log.entries)
            log = log.before
        return [entry for part in reversed(parts) for entry in part]


@dataclass(frozen=True)
class Place:
    """A state of the search: a folded workflow and its log.

    ``copy`` is an earlier state whose log somebody copied. ``generation`` counts how often a copy
    became the current log. ``lost`` names the attempts that only the replaced log contained.
    """

    flow: Workflow
    log: Log
    copy: Place | None = None
    generation: int = 0
    lost: tuple[tuple[str, str], ...] = ()

    @property
    def head(self) -> str:
        """The hash of the last event."""
        return self.log.entries[-1].hash

    @cached_property
    def key(self) -> bytes:
        """The key of the state, which is equal for states with the same future."""
        copied = self.copy.key if self.copy is not None else None
        return compute_state_key(self.flow, copied, self.generation, self.lost)


@dataclass(frozen=True)
class Move:
    """An action: a command, or a change of the whole state without a command.

    ``is_row`` means that a program writes an approval, with all events that name its amendment,
    into the log even if the rules refuse the command. ``is_raw`` means that a program writes the
    command unchanged. ``has_effect`` states whether the event must change the state. None means
    that the search does not check this.
    """

    text: str
    command: Payload | None = None
    actor: str = "user"
    change: Callable[[Place], Place] | None = None
    is_row: bool = False
    is_raw: bool = False
    has_effect: bool | None = None


class Step(NamedTuple):
    """A transition: the state before, the move, the new entries, and the state after."""

    before: Place
    move: Move
    entries: tuple[Entry, ...]
    after: Place


Judge = Callable[[Workflow, Entry], str | None]
"""Returns the reason why an approval is invalid, or None if it is valid."""
Invariant = Callable[[Step], str | None]
"""Returns the problem of a transition, or None."""


@dataclass(frozen=True)
class World:
    """A small workflow: its creation, and all moves that are tried in a state."""

    name: str
    creation: Payload
    moves: Callable[[Place], Iterable[Move]]
    judge: Judge = lambda _, __: None
    invariants: Sequence[Invariant] = ()
    #: Invariants that depend only on the state after a transition.
    of_new_states: Sequence[Invariant] = ()


@dataclass
class Exploration:
    """The result of a search: numbers of states, transitions, refusals and checked histories.

    ``problem`` is the first violation of an invariant, and ``path`` a shortest list of moves to it.
    """

    states: int = 1
    transitions: int = 0
    refusals: int = 0
    histories: int = 0
    problem: str | None = None
    path: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counts = (
            f"{self.states:,} states, {self.transitions:,} transitions, {self.refusals:,} refused "
            f"moves, {self.histories:,} histories checked against the protocol"
        )
        steps = [f"{number:3}. {text}" for number, text in enumerate(self.path, 1)]
        return "\n".join([counts, *steps, *([] if self.problem is None else [self.problem])])


def explore(world: World, every: int = 10) -> Exploration:
    """Try all moves in all reachable states, until none is new or an invariant is violated.

    The protocol check reads the history of each state that leads to no new state, and of every
    N-th transition, where N is ``every``.
    """
    start = create_place(world)
    found, came = Exploration(), {start.key: (b"", "")}
    queue = deque([(start.key, start)])
    while queue and found.problem is None:
        here, place = queue.popleft()
        is_last = True
        for step in _take_steps(world, place, found):
            new = step.after.key
            found.problem = _find_problem(world, step, found, every, is_new=new not in came)
            if found.problem is not None:
                found.path = [*_path(came, here), step.move.text]
                return found
            if new not in came:
                came[new], is_last = (here, step.move.text), False
                queue.append((new, step.after))
        if is_last:
            found.problem = _check_protocol(place, found)
            found.path = [] if found.problem is None else [*_path(came, here)]
    found.states = len(came)
    return found


def _take_steps(world: World, place: Place, found: Exploration) -> Iterator[Step]:
    for move in world.moves(place):
        step = take_step(place, move, world.judge)
        if step is None:
            found.refusals += 1
        else:
            found.transitions += 1
            yield step


def _find_problem(
    world: World, step: Step, found: Exploration, every: int, *, is_new: bool
) -> str | None:
    for invariant in (*world.invariants, *(world.of_new_states if is_new else ())):
        problem = invariant(step)
        if problem is not None:
            return problem
    is_sample = found.transitions % every == 0 and not (step.move.is_row or step.move.is_raw)
    return _check_protocol(step.after, found) if is_sample else None


def _path(came: dict[bytes, tuple[bytes, str]], key: bytes) -> Iterator[str]:
    before, text = came[key]
    if before:
        yield from _path(came, before)
        yield text


def create_place(world: World) -> Place:
    """Return the state after the creation of the workflow."""
    entries = tuple(_record(decide(None, world.creation, AT), None, 0, "user"))
    *_, (_, flow) = fold_events(None, entries)
    return Place(flow, Log(None, entries))


def take_step(place: Place, move: Move, judge: Judge) -> Step | None:
    """Return the transition of a move, or None if the rules refuse it or it changes nothing."""
    if move.change is not None:
        return Step(place, move, (), move.change(place))
    planned = _plan_events(place.flow, move)
    if not planned:
        return None
    entries = tuple(_record(planned, place.log, place.generation, move.actor))
    flow = place.flow.draft()
    for entry in entries:
        is_valid = entry.type == "amendment.approved" and judge(flow, entry) is None
        for _, folded in fold_events(flow, [entry], {entry.hash} if is_valid else ()):
            flow = folded
    return Step(place, move, entries, replace(place, flow=flow, log=Log(place.log, entries)))


def _plan_events(flow: Workflow, move: Move) -> list[Payload]:
    """Return the events of a command, or no event if the rules refuse the command."""
    command = move.command
    assert command is not None
    if move.is_raw:
        return [command]
    try:
        planned = decide(flow, command, AT)
    except LifecycleError:
        return [command] if move.is_row else []
    return [one for one in planned if _names_amendment(one)] if move.is_row else planned


def _names_amendment(event: Payload) -> bool:
    return bool(getattr(event, "amendment", None) or getattr(event, "superseded_by", None))


def _record(
    planned: Iterable[Payload], log: Log | None, generation: int, actor: str
) -> Iterator[Entry]:
    """Yield payloads as entries of a log, linked by their hashes."""
    last = log.entries[-1] if log is not None else None
    version, before = (last.version, last.hash) if last else (0, "0" * 64)
    command = f"{generation}-{version + 1}"
    for payload in planned:
        version += 1
        hash_ = f"{generation:032x}{version:032x}"
        yield Entry(payload.type, payload.as_json(), version, hash_, before, actor, command)
        before = hash_


def _check_protocol(place: Place, found: Exploration) -> str | None:
    """Return the rule of the protocol that a history violates, or None."""
    found.histories += 1
    bodies = (
        (
            {
                **entry._asdict(),
                "stream": "workflow-w",
                "event_id": entry.hash,
                "actor": {"kind": entry.actor},
            },
            entry.hash,
        )
        for entry in place.log.read()
    )
    breach = first_breach(bodies)
    if breach is None:
        return None
    return f"protocol check: version {breach.version}: {breach.promise}: {breach.message}"
