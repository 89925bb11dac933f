"""``wfctl list`` and ``wfctl inbox``: list workflows, and the decisions they wait for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cli.frame.context import Context
from cli.frame.options import File, Text, argument, option
from cli.frame.workspace import (
    OpenedWorkflow,
    open_root_log,
    open_workflow_for_reading,
    settings_of,
)
from cli.settings import Settings, actor_of
from cli.terminal.output import Output, print_message
from cli.terminal.table import TableColumn, format_table
from eventstore.database_url import is_postgres_url
from lifecycle.errors import LifecycleError
from projections.screens.inbox import InboxItem, normalize_item_number, number_items
from projections.words.account import list_waiting_items
from projections.words.format_results import list_named_results
from projections.words.text import truncate_utc_to_seconds
from service.errors import InvalidOption, NotFound
from service.root.root import WORKFLOW, Root, find_root, read_config, without_secrets
from service.root.trust import known_roots
from wfctl_eventstore.extension import find_extension

if TYPE_CHECKING:
    from lifecycle.state.workflow import Workflow

Record = dict[str, Any]
#: Maximum number of files to count in a workflow folder. If it contains more files, the size shown
#: is a lower bound.
_FILES = 20_000
#: Maximum number of waiting items listed for each workflow.
_WAITS = 5


def list_(
    context: Context,
    limit: int = option(
        "-n", "--limit", "N", "List only the N workflows that changed last.", min=1, default=50
    ),
    size: bool = option(
        "--size/--no-size", "Show the disk space that each workflow uses.", default=True
    ),
) -> None:
    """List your workflows.

    The list shows which decisions each workflow waits for. If the logs are on a database server,
    the list shows the workflows of your group. --database-url or config.toml names the server.
    """
    settings = settings_of(context)
    found = sorted(
        _list_records(settings), key=lambda record: record["updated"] or "", reverse=True
    )
    shown = found[:limit]
    for record in shown if size else ():
        if record["root"] is not None:
            record["bytes"], record["bytes_are_all"] = _compute_disk_usage(record["root"])
    left_out = len(found) - len(shown)
    output = Output(settings)
    more = [f"and {left_out} older (`-n N` shows more)"] if left_out else []
    output.result(
        {"workflows": shown, "left_out": left_out},
        lambda: "\n".join([format_table(output, shown, _select_columns(shown)), *more]),
    )


def _list_records(settings: Settings) -> Iterator[Record]:
    """Yield one record for each workflow of the user, including those on database servers.

    If a workflow cannot be read, its record contains the reason.
    """
    plain = replace(settings, root=None, database_url=None)
    servers = [settings.database_url] if is_postgres_url(settings.database_url or "") else []
    #: First event hash of each log already listed. The hash identifies a log, because one server
    #: can have several URLs.
    seen: set[str | None] = set()
    for root in known_roots():
        try:
            url = read_config(find_root(root)).database_url
            servers += [url] if url is not None and is_postgres_url(url) else []
            with open_workflow_for_reading(replace(plain, root=root)) as workflow:
                is_flow = workflow.config.workflow is not None
                seen.add(workflow.log.approvals.first_hash())
                state = workflow.state() if is_flow else None
                record = _build_record(root, state, None if is_flow else "machines alone")
        except Exception as error:  # noqa: BLE001 - one root that is broken hides no other
            record = _build_record(root, None, _get_reason(error))
        yield record
    for server in dict.fromkeys(filter(None, servers)):
        yield from (
            {**one, "database": without_secrets(server)}
            for one in _list_server_workflows(server, seen)
        )


def _get_reason(error: Exception) -> str:
    return str(getattr(error, "message", error))


def _list_server_workflows(url: str, seen: set[str | None]) -> Iterator[Record]:
    """Yield a record for each workflow on a database server that is not listed yet.

    ``seen`` contains the first event hash of each listed log. Add the new hashes to ``seen``.
    """
    from service.reading.log import WorkflowLog

    try:
        store = open_root_log(Root(Path.cwd(), url), read_only=True)
    except Exception as error:  # noqa: BLE001 - a server that is away hides no root
        yield _build_record(None, None, _get_reason(error))
        return
    with closing(store):
        for stream in store.streams():
            log = WorkflowLog(store, stream, Path.cwd())
            if not stream.startswith(WORKFLOW) or (first := log.approvals.first_hash()) in seen:
                continue
            seen.add(first)
            try:
                yield _build_record(None, log.current())
            except Exception as error:  # noqa: BLE001 - one damaged workflow hides no other
                record = _build_record(None, None, _get_reason(error))
                yield {**record, "workflow": stream.removeprefix(WORKFLOW)}


def _build_record(root: Path | None, state: Workflow | None, note: str | None = None) -> Record:
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
        told = [str(wait) for wait in list_waiting_items(state)]
        over = state.workflow_status is not None or state.session.is_open
        if not told and not over and state.session.exit_reason == "blocked":
            # The session ended as blocked, but no waiting item explains the reason. Refer the user
            # to `wfctl why`.
            told.append("its last session ended blocked; wfctl why")
        record["results"] = [str(one) for one in list_named_results(state) if one.number]
        record |= {"stages": dict(counts), "waits": [text[:160] for text in told[:_WAITS]]}
    return record


def _compute_disk_usage(root: str) -> tuple[int, bool]:
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


def _format_progress(record: Record) -> str:
    counts = record["stages"]
    return f"{counts.get('completed', 0)}/{sum(counts.values())}" if counts else "-"


def _format_size(record: Record) -> str:
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
    TableColumn("DONE", _format_progress),
    TableColumn("ANSWER", lambda r: "; ".join(r["results"]) or "-", 40),
    TableColumn("SIZE", _format_size),
    TableColumn("UPDATED", lambda r: truncate_utc_to_seconds(r["updated"]) or "-"),
    TableColumn("WAITS FOR A PERSON", lambda r: "; ".join(r["waits"]) or r["note"] or "-", 48),
    TableColumn("WHERE", lambda r: r["root"] or r["database"] or "-", 60),
)


def _select_columns(shown: list[Record]) -> list[TableColumn]:
    """Return the columns of the list. Omit the results column if no workflow has results."""
    has_answers = any(record["results"] for record in shown)
    return [one for one in _COLUMNS if has_answers or one.head != "ANSWER"]


class InboxAnswer(StrEnum):
    """The actions that a person can choose for a waiting item in the inbox."""

    APPROVE = "approve"
    REJECT = "reject"
    ANSWER = "answer"
    STATEMENT = "statement"


#: Action → option for the text that the person gives, if the action accepts a text.
_WORDS = {InboxAnswer.REJECT: "--reason", InboxAnswer.ANSWER: "--evidence"}
#: Kind of waiting item → action → command to run. The star stands for the name of the item.
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
    context: Context,
    answer: InboxAnswer | None = argument(
        "[ANSWER]",
        "What to do with one item: approve, reject, answer, or statement (print the "
        "text to sign). Without ANSWER, list all items.",
    ),
    number: Text = argument("[NUMBER]", "The number of the item, as `wfctl inbox` lists it."),
    text: Text = option(
        "TEXT",
        "Record this text in the log: the reason when you reject, or your evidence "
        "when you answer.",
    ),
    key: File = option(
        "FILE",
        "Sign your approval with this SSH key. FILE is the private key, or the .pub file "
        "of a key in ssh-agent.",
    ),
    signature: File = option(
        "FILE",
        "Approve with this signature file. To create the file, sign the output of "
        "`wfctl inbox statement`.",
    ),
    choice: Text = option(
        "FILE", "Select this file, if the approval requires a choice between several files."
    ),
) -> None:
    """List everything that waits for your decision.

    The list contains the open decisions of all workflows and machines of your user account, with
    their impact. To decide, add approve, reject or answer and the number of the item.
    """
    from cli.main import run

    settings = settings_of(context)
    found = number_items(list(_list_waiting_items(replace(settings, root=None, database_url=None))))
    if answer is None:
        data = [one.to_dict(its) for its, one in found.items()]
        Output(settings).result(data, lambda: "\n".join(map(_format_item, data)) or "nothing waits")
        return
    number = normalize_item_number(number or "")
    if number not in found:
        raise NotFound(
            f"the inbox has no entry with the number {number!r}. Valid numbers: "
            f"{', '.join(found) or 'none'}. To list the entries, run `wfctl inbox`."
        )
    given = {"--key": key, "--signature": signature, "--choice": choice}
    line = _answer_item(found[number], answer, text, given)
    actor = [f"--actor={settings.actor}"] if settings.actor is not None else []
    everywhere = [f"--root={found[number].root}", f"--output={settings.format.value}", *actor]
    raise SystemExit(run([*everywhere, *line]))


def _answer_item(one: InboxItem, answer: InboxAnswer, text: str | None, given: Record) -> list[str]:
    line = one.lines.get(answer.value)
    if line is None:
        raise InvalidOption(
            f"`{answer.value}` is not a possible answer for {one.kind} {one.subject}. Possible "
            f"answers: {', '.join(sorted(one.lines)) or 'none'}."
        )
    option = _WORDS.get(answer)
    if option is None and text is not None:
        raise InvalidOption(
            "the option --text can be used only with `reject` and `answer`, not with "
            f"`{answer.value}`. Remove --text."
        )
    if answer is InboxAnswer.ANSWER and text is None:
        raise InvalidOption("an answer needs a text. Give the text with --text TEXT.")
    more = [f"{option}={text}"] if option and text is not None else []
    return [*line, *more, *(f"{name}={value}" for name, value in given.items() if value)]


def _list_waiting_items(settings: Settings) -> Iterator[InboxItem]:
    """Yield all items that wait for a decision, in all workflow folders of the user.

    Print a message for each folder that cannot be read.
    """
    for root in known_roots():
        try:
            with open_workflow_for_reading(replace(settings, root=root)) as workflow:
                found = [*_list_workflow_items(workflow, settings), *_list_machine_items(workflow)]
        except Exception as error:  # noqa: BLE001 - one root that is broken hides no other
            print_message(f"not checked: {root}: {getattr(error, 'message', error)}")
            continue
        yield from found


def _list_workflow_items(workflow: OpenedWorkflow, settings: Settings) -> Iterator[InboxItem]:
    if workflow.config.workflow is None:
        return
    from reconciler.files.freshness import find_log_differences

    state = workflow.state()
    for wait in list_waiting_items(state, find_log_differences(workflow.root, workflow.log, state)):
        text, mark = wait.text, wait.text
        if wait.kind == "amendment":
            more, mark = _describe_impact(workflow, settings, state, wait.subject)
            text += more
        elif wait.kind == "drift":
            mark = str([(d.version, d.rest) for d in state.drifts if d.file == wait.subject])
        lines = {
            answer: [wait.subject if word == "*" else word for word in line.split()]
            for answer, line in _LINES.get(wait.kind, {}).items()
        }
        root = str(workflow.root.path)
        yield InboxItem(root, wait.kind, wait.subject, text, lines, mark, state.id)


def _describe_impact(
    workflow: OpenedWorkflow, settings: Settings, state: Workflow, subject: str
) -> tuple[str, str]:
    """Return a message about the impact of an amendment (a change of the plan), and a digest.

    The digest identifies the content of the amendment. If the amendment no longer fits the
    workflow, the text is the error message.
    """
    from cli.frame import impact as words
    from eventstore.chain import canonical_json, sha256_hex
    from service.consent.proof import agreed_content
    from service.writing.amendments import build_question
    from service.writing.workflow_service import Service

    mark = sha256_hex(canonical_json(agreed_content(state.amendments[subject])))
    try:
        service = Service(workflow.root, workflow.log, actor_of(settings))
        question = build_question(service, subject)
    except LifecycleError as error:  # it fits the workflow no longer
        return f"; {error.message}", mark
    if question.amendment.is_plan:
        return "\n  ".join(["", *words.format_question(question).splitlines()]), question.digest
    sight = words.forecast_effects(question.root, state, question.amendment, question.impact)
    told = [*words.list_consequences(question.impact), *words.format_forecast(sight)]
    return f"; impact: {'; '.join(told)}", mark


def _list_machine_items(workflow: OpenedWorkflow) -> Iterator[InboxItem]:
    machines = find_extension("machines")
    return iter(()) if machines is None else machines.find_machine_decisions(workflow)


def _format_item(one: Record) -> str:
    answers = f" ({', '.join(one['answers'])})" if one["answers"] else ""
    return f"{one['number']}  {one['of']}  {one['kind']} {one['subject']}: {one['text']}{answers}"
