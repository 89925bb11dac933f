"""``wfctl inbox``: what waits for a person in all workflows of this login, answered by number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from typing import Any

import typer

from cli.frame import impact as words
from cli.frame.options import File, Text, argument, option
from cli.frame.workspace import Reading, reading_of, settings_of
from cli.settings import Settings, actor_of
from cli.terminal.output import Output
from lifecycle.errors import LifecycleError
from lifecycle.machines.machine import Machine
from lifecycle.state.workflow import Workflow
from projections.screens.inbox import InboxItem, number_of, numbered
from projections.words.account import waits
from projections.words.came_about import Item
from projections.words.next_action import NextAction
from service.errors import InvalidOption, NotFound
from service.root.known_logs import known_roots

Record = dict[str, Any]


class InboxAnswer(StrEnum):
    """What a person does of something that waits."""

    APPROVE = "approve"
    REJECT = "reject"
    ANSWER = "answer"
    STATEMENT = "statement"


#: Verb of a machine's action that a person decides → the kind of what waits.
_OF_PERSON = {"approve": "approval", "drift": "drift"}
#: Answer → the option that a person's words go to, if it takes any.
_WORDS = {InboxAnswer.REJECT: "--reason", InboxAnswer.ANSWER: "--evidence"}


def inbox(
    context: typer.Context,
    answer: InboxAnswer | None = argument(
        "[ANSWER]", "approve, reject, answer, statement; else all is listed."
    ),
    number: Text = argument("[NUMBER]", "Of what, as the list numbers it."),
    text: Text = option("TEXT", "Why it is rejected, or what was seen."),
    key: File = option("FILE", "Sign with this SSH key (or its .pub)."),
    signature: File = option("FILE", "A signature of the statement."),
    choice: Text = option("FILE", "Of an approval that chooses: which."),
) -> None:
    """What waits for a person in all workflows and machines of this login, with its impact.

    approve, reject, answer and statement do what the commands of the workflow itself do, by the
    same consent.
    """
    settings = settings_of(context)
    found = numbered(list(_all(replace(settings, root=None, database_url=None))))
    if answer is None:
        data = [one.to_dict(its) for its, one in found.items()]
        Output(settings).result(data, lambda: "\n".join(map(_line, data)) or "nothing waits")
        return
    number = number_of(number or "")
    if number not in found:
        raise NotFound(
            f"expected a number of what waits ({', '.join(found) or 'nothing does'}), "
            f"found {number!r}; `wfctl inbox` lists it"
        )
    given = {"--key": key, "--signature": signature, "--choice": choice}
    line = _answered(found[number], answer, text, given)
    raise typer.Exit(_carried_out(settings, found[number], line))


def _answered(one: InboxItem, answer: InboxAnswer, text: str | None, given: Record) -> list[str]:
    line = one.lines.get(answer.value)
    if line is None:
        raise InvalidOption(
            f"{one.kind} {one.subject}: expected {' or '.join(sorted(one.lines)) or 'no answer'}, "
            f"found {answer.value}"
        )
    option = _WORDS.get(answer)
    if option is None and text is not None:
        raise InvalidOption(f"--text goes with reject and answer; found {answer.value}")
    if answer is InboxAnswer.ANSWER and text is None:
        raise InvalidOption("an answer says what was seen: give --text TEXT")
    more = [f"{option}={text}"] if option and text is not None else []
    return [*line, *more, *(f"{name}={value}" for name, value in given.items() if value)]


def _carried_out(settings: Settings, one: InboxItem, line: list[str]) -> int:
    from cli.main import run

    actor = [f"--actor={settings.actor}"] if settings.actor is not None else []
    everywhere = [f"--root={one.root}", f"--output={settings.format.value}", *actor]
    return run([*everywhere, *line])


def _all(settings: Settings) -> Iterator[InboxItem]:
    """Yield what waits in each root; of one that cannot be read `wfctl list` says why."""
    for root in known_roots():
        try:
            with reading_of(replace(settings, root=root)) as workflow:
                found = [*_of_workflow(workflow, settings), *_of_machines(workflow)]
        except Exception:  # noqa: BLE001, S112 - it has its line in `wfctl list`
            continue
        yield from found


def _of_workflow(workflow: Reading, settings: Settings) -> Iterator[InboxItem]:
    if workflow.config.workflow is None:
        return
    from reconciler.files.freshness import look

    state = workflow.state()
    for wait in waits(state, look(workflow.root, workflow.log, state)):
        text, mark = wait.text, wait.text
        if wait.kind == "amendment":
            text, mark = _impact(workflow, settings, state, wait)
        elif wait.kind == "drift":
            mark = str([(d.version, d.rest) for d in state.drifts if d.file == wait.subject])
        yield InboxItem(
            root=str(workflow.root.path),
            kind=wait.kind,
            subject=wait.subject,
            text=text,
            lines=_lines(wait),
            mark=mark,
            of=state.id,
        )


def _impact(workflow: Reading, settings: Settings, state: Workflow, wait: Item) -> tuple[str, str]:
    from eventstore.codec import canonical, digest
    from service.consent.proof import content_of
    from service.writing.amendments import question_of
    from service.writing.workflow_service import Service

    mark = digest(canonical(content_of(state.amendments[wait.subject])))
    try:
        service = Service(workflow.root, workflow.log, actor_of(settings))
        question = question_of(service, wait.subject)
    except LifecycleError as error:  # it fits the workflow no longer
        return f"{wait.text}; {error.message}", mark
    if question.amendment.is_plan:
        return "\n  ".join([wait.text, *words.told(question).splitlines()]), question.digest
    return f"{wait.text}; impact: {'; '.join(words.consequences(question.impact))}", mark


def _lines(wait: Item) -> dict[str, list[str]]:
    if wait.kind == "amendment":
        return {
            "approve": ["amend", "approve", wait.subject],
            "reject": ["amend", "reject", wait.subject],
            "statement": ["amend", "show", wait.subject, "--statement"],
        }
    if wait.kind == "drift":
        return {
            "approve": ["drift", "adopt", wait.subject],
            "reject": ["drift", "revert", wait.subject],
        }
    if wait.kind == "judgement":
        return {"answer": ["stage", "complete", wait.subject]}
    return {}


def _of_machines(workflow: Reading) -> Iterator[InboxItem]:
    from projections.machines.next_actions import machine_actions
    from service.machines import evidence, log

    store, root = workflow.log.store, workflow.root
    for id_ in log.ids(root, store):
        machine = workflow.machine(id_).current()
        for action in machine_actions(machine, evidence.evidence(root.path, machine)):
            if action.person:
                yield _asked(str(root.path), machine, action)


def _asked(root: str, machine: Machine, action: NextAction) -> InboxItem:
    verb, target = str(action.verb), str(action.target)
    line = ["machine", verb, machine.id, target]
    edits = [one.version for one in machine.drifts if one.file == target]
    return InboxItem(
        root=root,
        kind=_OF_PERSON[verb],
        subject=f"{machine.id} {target}",
        text=action.reason,
        lines={"approve": [*line, "--adopt"], "reject": [*line, "--revert"]}
        if verb == "drift"
        else {"approve": line, "statement": [*line, "--statement"]},
        mark=f"{machine.visit.entered_at}{edits or ''}",
        of=machine.id,
    )


def _line(one: Record) -> str:
    answers = f" ({', '.join(one['answers'])})" if one["answers"] else ""
    return f"{one['number']}  {one['of']}  {one['kind']} {one['subject']}: {one['text']}{answers}"
