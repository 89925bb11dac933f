"""``wfctl list`` and ``wfctl inbox``: all workflows of this login, and what waits in them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli.frame.options import File, Text, argument, option
from cli.frame.workspace import Reading, opened, reading_of, settings_of
from cli.settings import Settings, actor_of
from cli.terminal.output import Output, say
from cli.terminal.table import TableColumn, table
from eventstore.private import is_server
from lifecycle.errors import LifecycleError
from projections.screens.inbox import InboxItem, number_of, numbered
from projections.words.account import waits
from projections.words.answers import answers
from projections.words.text import utc_seconds
from service.errors import InvalidOption, NotFound
from service.root.root import WORKFLOW, Root, find_root, kept, read_config
from service.root.trust import known_roots

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow

Record = dict[str, Any]
#: Files below a root that are counted; a root with more is told as at least so large.
_FILES = 20_000
#: What waits, of one workflow, that is named.
_WAITS = 5


def list_(
    context: typer.Context,
    limit: int = option("-n", "--limit", "N", "Show only the newest N.", min=1, default=50),
    size: bool = option("--size/--no-size", "Show the size on disk.", default=True),
) -> None:
    """List your workflows.

    Show what waits for a decision in each. On a database server, list the workflows of your group;
    --database-url or the configuration of a root names the server.
    """
    settings = settings_of(context)
    found = sorted(_records(settings), key=lambda record: record["updated"] or "", reverse=True)
    shown = found[:limit]
    for record in shown if size else ():
        if record["root"] is not None:
            record["bytes"], record["bytes_are_all"] = _on_disk(record["root"])
    left_out = len(found) - len(shown)
    output = Output(settings)
    more = [f"and {left_out} older (`-n N` shows more)"] if left_out else []
    output.result(
        {"workflows": shown, "left_out": left_out},
        lambda: "\n".join([table(output, shown, _columns(shown)), *more]),
    )


def _records(settings: Settings) -> Iterator[Record]:
    """Yield a record of each workflow, each once; of what cannot be read, why."""
    plain = replace(settings, root=None, database_url=None)
    servers = [settings.database_url] if is_server(settings.database_url or "") else []
    seen: set[tuple[str | None, str]] = set()
    for root in known_roots():
        url = None
        try:
            url = read_config(find_root(root)).database_url
            with reading_of(replace(plain, root=root)) as workflow:
                is_flow = workflow.config.workflow is not None
                state = workflow.state() if is_flow else None
                record = _record(root, state, None if is_flow else "machines alone")
        except Exception as error:  # noqa: BLE001 - one root that is broken hides no other
            url, record = None, _record(root, None, str(getattr(error, "message", error)))
        servers += [url] if url is not None and is_server(url) else []
        seen.add((kept(url) if url else None, str(record["workflow"])))
        yield record
    for server in dict.fromkeys(filter(None, servers)):
        known = {name for url, name in seen if url == kept(server)}
        yield from ({**one, "database": kept(server)} for one in _on_server(server, known))


def _on_server(url: str, known: set[str]) -> Iterator[Record]:
    from service.reading.log import WorkflowLog

    try:
        store = opened(Root(Path.cwd(), url), read_only=True)
    except Exception as error:  # noqa: BLE001 - a server that is away hides no root
        yield _record(None, None, str(getattr(error, "message", error)))
        return
    with closing(store):
        for stream in store.streams():
            name = stream.removeprefix(WORKFLOW)
            if name != stream and name not in known:
                yield _record(None, WorkflowLog(store, stream, Path.cwd()).current())


def _record(root: Path | None, state: Workflow | None, note: str | None = None) -> Record:
    record: Record = {
        "workflow": state.id if state else None,
        "root": str(root) if root else None,
        "database": None,
        "status": (state.workflow_status or "active") if state else None,
        "purpose": state.purpose if state else None,
        "results": [],
        "stages": {},
        "waits": [],
        "updated": state.updated if state else None,
        "bytes": None,
        "note": note[:200] if note is not None else None,
    }
    if state is not None:
        counts = Counter(stage.status.value for stage in state.stages.values())
        told = [str(wait) for wait in waits(state)]
        over = state.workflow_status is not None or state.session.is_open
        if not told and not over and state.session.exit_reason == "blocked":
            # Nothing that is told here says why.
            told.append("its last session ended blocked; wfctl why")
        record["results"] = [str(one) for one in answers(state) if one.number]
        record |= {"stages": dict(counts), "waits": [text[:160] for text in told[:_WAITS]]}
    return record


def _on_disk(root: str) -> tuple[int, bool]:
    total = counted = 0
    for folder, _, names in os.walk(root):
        for name in names:
            counted += 1
            if counted > _FILES:
                return total, False
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118
            except OSError:
                continue  # it went away meanwhile
    return total, True


def _done(record: Record) -> str:
    counts = record["stages"]
    return f"{counts.get('completed', 0)}/{sum(counts.values())}" if counts else "-"


def _size(record: Record) -> str:
    size = record.get("bytes")
    if size is None:
        return "-"
    units = ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        del units[0]
    return f"{'' if record.get('bytes_are_all', True) else '>'}{size:.3g} {units[0]}"


_COLUMNS = (
    TableColumn("WORKFLOW", lambda r: r["workflow"] or "-", 32),
    TableColumn("STATUS", lambda r: r["status"] or "-"),
    TableColumn("DONE", _done),
    TableColumn("ANSWER", lambda r: "; ".join(r["results"]) or "-", 40),
    TableColumn("SIZE", _size),
    TableColumn("UPDATED", lambda r: utc_seconds(r["updated"]) or "-"),
    TableColumn("WAITS FOR A PERSON", lambda r: "; ".join(r["waits"]) or r["note"] or "-", 48),
    TableColumn("WHERE", lambda r: r["root"] or r["database"] or "-", 60),
)


def _columns(shown: list[Record]) -> list[TableColumn]:
    """Return the columns; one for answers only if a workflow has any."""
    has_answers = any(record["results"] for record in shown)
    return [one for one in _COLUMNS if has_answers or one.head != "ANSWER"]


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
#: Kind of what waits in a workflow → answer → the command with its subject in place of the star.
_LINES = {
    "amendment": {
        "approve": "amend approve *",
        "reject": "amend reject *",
        "statement": "amend show * --statement",
    },
    "drift": {"approve": "drift adopt *", "reject": "drift revert *"},
    "judgement": {"answer": "stage complete *"},
}


def inbox(
    context: typer.Context,
    answer: InboxAnswer | None = argument(
        "[ANSWER]", "approve, reject, answer or statement; without it, list everything."
    ),
    number: Text = argument("[NUMBER]", "Number of the item in the list."),
    text: Text = option("TEXT", "Reason of the rejection, or the evidence."),
    key: File = option("FILE", "Sign with this SSH key (or its .pub)."),
    signature: File = option("FILE", "Signature of the statement."),
    choice: Text = option("FILE", "Choose this option of an approval."),
) -> None:
    """List everything that waits for your decision.

    List the decisions of all workflows and machines of your user account, with their impact. The
    subcommands approve, reject, answer and statement do what the commands of the workflow do, with
    the same consent.
    """
    from cli.main import run

    settings = settings_of(context)
    found = numbered(list(_waiting(replace(settings, root=None, database_url=None))))
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
    actor = [f"--actor={settings.actor}"] if settings.actor is not None else []
    everywhere = [f"--root={found[number].root}", f"--output={settings.format.value}", *actor]
    raise typer.Exit(run([*everywhere, *line]))


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


def _waiting(settings: Settings) -> Iterator[InboxItem]:
    """Yield what waits in each root; a root that cannot be read is told, and hides no other."""
    for root in known_roots():
        try:
            with reading_of(replace(settings, root=root)) as workflow:
                found = [*_of_workflow(workflow, settings), *_of_machines(workflow)]
        except Exception as error:  # noqa: BLE001 - one root that is broken hides no other
            say(f"not looked at: {root}: {getattr(error, 'message', error)}")
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
            more, mark = _impact(workflow, settings, state, wait.subject)
            text += more
        elif wait.kind == "drift":
            mark = str([(d.version, d.rest) for d in state.drifts if d.file == wait.subject])
        lines = {
            answer: [wait.subject if word == "*" else word for word in line.split()]
            for answer, line in _LINES.get(wait.kind, {}).items()
        }
        root = str(workflow.root.path)
        yield InboxItem(root, wait.kind, wait.subject, text, lines, mark, state.id)


def _impact(
    workflow: Reading, settings: Settings, state: Workflow, subject: str
) -> tuple[str, str]:
    """Return what is told of an amendment's impact, and what tells it from another."""
    from cli.frame import impact as words
    from eventstore.chain import canonical, digest
    from service.consent.proof import content_of
    from service.writing.amendments import question_of
    from service.writing.workflow_service import Service

    mark = digest(canonical(content_of(state.amendments[subject])))
    try:
        service = Service(workflow.root, workflow.log, actor_of(settings))
        question = question_of(service, subject)
    except LifecycleError as error:  # it fits the workflow no longer
        return f"; {error.message}", mark
    if question.amendment.is_plan:
        return "\n  ".join(["", *words.told(question).splitlines()]), question.digest
    sight = words.foresight(question.root, state, question.amendment, question.impact)
    told = [*words.consequences(question.impact), *words.foreseen(sight)]
    return f"; impact: {'; '.join(told)}", mark


def _of_machines(workflow: Reading) -> Iterator[InboxItem]:
    from projections.machines.next_actions import machine_actions
    from service.machines import evidence, log

    root = workflow.root
    for id_ in log.ids(root, workflow.log.store):
        machine = workflow.machine(id_).current()
        for action in machine_actions(machine, evidence.evidence(root.path, machine)):
            if not action.person:
                continue
            verb, target = str(action.verb), str(action.target)
            line = ["machine", verb, id_, target]
            lines = {"approve": line, "statement": [*line, "--statement"]}
            if verb == "drift":
                lines = {"approve": [*line, "--adopt"], "reject": [*line, "--revert"]}
            edits = [one.version for one in machine.drifts if one.file == target]
            mark = f"{machine.visit.entered_at}{edits or ''}"
            place, kind = str(root.path), _OF_PERSON[verb]
            yield InboxItem(place, kind, f"{id_} {target}", action.reason, lines, mark, id_)


def _line(one: Record) -> str:
    answers = f" ({', '.join(one['answers'])})" if one["answers"] else ""
    return f"{one['number']}  {one['of']}  {one['kind']} {one['subject']}: {one['text']}{answers}"
