"""``wfctl events``, ``fsck`` and ``schema``: the log as it is."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cli.frame import selection as chosen
from cli.frame.options import FINDINGS, AsOf, Brief, DryRun, Text, Texts, argument, option
from cli.frame.workspace import Reading, reading, settings_of, standing, writing
from cli.terminal.output import Output
from service.errors import InvalidOption

if TYPE_CHECKING:
    from eventstore.event import RecordedEvent
    from service.files.inspection import Difference
    from service.reading.moment import Moment
    from service.reading.stream_log import StreamLog


#: So many findings say what is wrong; of a damaged log each row may be one.
_SHOWN = 100


def events(
    context: typer.Context,
    asked: chosen.Wanted = chosen.ALL,
    view: AsOf = None,
    limit: chosen.Newest = None,
    brief: Brief = None,
    fields: chosen.Fields = None,
    template: chosen.Template = None,
    reverse: chosen.Reverse = False,
    follow: chosen.Follow = False,
    machine: Text = option("ID", "Those of a phase machine."),
    stored: bool = option("Each as it was hashed, to be checked by others."),
) -> None:
    """Print the recorded events; with --actor KIND or KIND:NAME only those of one actor."""
    if stored:
        _print_stored(context, machine)
        return
    chosen.own_form(brief, {"--reverse": reverse, "--fields": fields, "--template": template})
    if follow:
        endless({"--reverse": reverse, "--brief": brief, **moments(context)})
    with reading(context) as root:
        workflow = root if machine is None else of_machine(root, machine)
        wanted = asked.of(workflow)
        found = recorded(workflow, follow) if view is None else _seen(workflow, view, machine)
        records = chosen.matching((_record(e) for e in found if wanted.fits(e)), asked.grep)
        # Those to come have no end of which one could count back.
        shown = islice(records, limit) if follow else chosen.ordered(records, limit, reverse)
        if brief is not None:
            from cli.frame.brief import Newest

            Newest(workflow.output, _short, _line, view).print(shown, brief)
            return
        shape = chosen.shape_of(workflow.output, fields, template)
        shape.print(workflow.output, shown, _line, view)


def _print_stored(context: typer.Context, machine: str | None) -> None:
    """Print every event of a stream, byte for byte as it is kept; raises `InvalidOption`.

    What is read otherwise is lifted to the schema of today, and has another hash.
    """
    names = [name for name in context.params if name not in ("stored", "machine")]
    given = [name for name in names if context.params[name] not in (None, False, [], ())]
    if given:
        shown = ", ".join(f"--{name.strip('_').replace('_', '-')}" for name in given)
        raise InvalidOption(f"--stored prints every event of the stream: leave out {shown}")
    from eventstore.transfer.archive import exported

    with reading(context) as root:
        workflow = root if machine is None else of_machine(root, machine)
        for raw in workflow.log.store.raw(workflow.log.stream):
            print(exported(raw))


def of_machine(root: Reading, machine: str) -> Reading:
    """Return the root with the log of a machine; raises `StateNotFound`."""
    from service.reading.log import WorkflowLog

    log = root.machine(machine)
    log.current()
    output = Output(root.output.settings, partial(standing, log, None))
    return replace(root, log=WorkflowLog(log.store, log.stream, root.root.path), output=output)


def _seen(workflow: Reading, view: Moment, machine: str | None) -> Iterator[RecordedEvent]:
    log = workflow.log if machine is None else workflow.machine(machine)
    return log.events(view)


def endless(others: dict[str, object]) -> None:
    """Raise `InvalidOption` where an option was given that needs an end, which none comes to."""
    given = [name for name, value in others.items() if value]
    if given:
        raise InvalidOption(f"--follow has no end, which {' and '.join(given)} would need")


def moments(context: typer.Context) -> dict[str, object]:
    """Return which options name a moment, as they were given."""
    return {"--at": context.params["at"], "--known-at": context.params["known_at"]}


def recorded(workflow: Reading, follow: bool) -> Iterator[RecordedEvent]:
    """Return the recorded events, and with ``follow`` those to come."""
    store, stream = workflow.log.store, workflow.log.stream
    if not follow:
        return store.read(stream)
    from eventstore.store import subscribed

    return subscribed(store, stream=stream)


def _record(event: RecordedEvent) -> dict[str, Any]:
    return {**event.body, "hash": event.hash, "position": event.position}


def _short(record: dict[str, Any]) -> dict[str, Any]:
    """Return what tells of an event: not its place in the chain, nor what it was caused by."""
    return {
        "version": record["version"],
        "at": f"{record['recorded_at'][:19]}Z",
        "type": record["type"],
        "actor": _who(record["actor"]),
        "data": record["data"],
    }


def _who(actor: Any) -> str:
    return f"{actor['kind']}:{actor['name']}" if isinstance(actor, dict) else str(actor)


def _line(record: dict[str, Any]) -> str:
    data = record["data"]
    stage = data.get("stage") or ""
    when = f"{record['recorded_at'][:19]}Z"
    return f"v{record['version']:<4} {when} {record['type']:<20} {stage:<9} {_who(record['actor'])}"


def fsck(
    context: typer.Context,
    checkpoint: list[Path] | None = option(
        "FILE", "Hold the log against a checkpoint kept elsewhere."
    ),
    witness: Texts = option("URL", "Hold the log against what a witness saw last."),
    public_key: Texts = option("KEY", "A key whose checkpoints count too, or a file of it."),
    protocol: bool = option("Say too whether the log could have come about."),
    all_: bool = option("Every finding, not the first 100."),
) -> None:
    """Check the chain, the order, every event, and every checkpoint that is found (exit 7)."""
    from cli.frame.checkpoints import judged, lines_of, told_of
    from service.machines.inspection import check_machines
    from service.questions.integrity import check_integrity

    with reading(context) as workflow:
        head = workflow.log.store.head(workflow.log.stream)  # what is appended later is checked too
        machines, theirs = check_machines(workflow.root, workflow.log.store)
        held = judged(workflow, machines, checkpoint or (), witness or (), public_key or ())
        found = [*check_integrity(workflow.root, workflow.log), *theirs, *held.findings]
        if protocol and not found:
            from service.reading.selection import check_behaviour

            found = check_behaviour(workflow.log)
        more = 0 if all_ else max(0, len(found) - _SHOWN)
        findings = [finding._asdict() for finding in found[: len(found) - more]]
        version = head.version if head is not None else 0
        left_out = [f"and {more} more: `wfctl fsck --all`"] if more else []
        text = "\n".join([*map(_finding, findings), *left_out])
        theirs_told = (f"clean: {id_}: {n} events, chain whole" for id_, n in machines.items())
        told = [_clean(version), *theirs_told, *lines_of(held)]
        data = {
            "events": version,
            "head": head.hash if head else None,
            "findings": findings,
            **({"findings_left_out": more} if more else {}),
            "machines": machines,
            "checkpoints": told_of(held),
        }
        workflow.output.result(data, lambda: text or "\n".join(told))
    if findings:
        raise typer.Exit(FINDINGS)


def _clean(version: int) -> str:
    if not version:
        return "clean: no events"
    beside = "results and inputs of stages are looked at by `wfctl verify`"
    return f"clean: {version} events, chain whole; {beside}"


def _finding(finding: dict[str, Any]) -> str:
    from service.machines.log import PREFIX

    stream = str(finding["stream"] or "")
    machine = f"{stream}: " if stream.startswith(PREFIX) else ""
    at = f"version {finding['version']}: " if finding["version"] is not None else ""
    return f"{machine}{at}{finding['kind']}: {finding['message']}"


def schema(
    context: typer.Context,
    name: Text = argument(
        "[TYPE]", "An event type, or event, state, answer, plan, definition, feature.state …"
    ),
) -> None:
    """Print a JSON Schema: of an event's data, an event, the state …; without a name, which."""
    from lifecycle.errors import UnknownEventType
    from projections.files import schemas

    output = Output(settings_of(context))
    # Making every schema takes a hundred times as long as making one.
    shown = (schemas.schema(name) or _of_machine(name)) if name is not None else None
    if shown is not None:
        output.result(shown, lambda: _indented(shown))
        return
    every = {**schemas.schemas(), **_of_machines()}
    if name is not None:
        raise UnknownEventType(name, sorted(every))
    known = {key: schemas.about(key, one) for key, one in every.items()}
    width = max(map(len, known))
    output.result(
        known, lambda: "\n".join(f"{name:<{width}}  {line}" for name, line in known.items())
    )


def _of_machines() -> dict[str, Any]:
    from service.machines.completing import SHIPPED

    return {key: one for type_ in SHIPPED for key, one in _of_type(type_).items()}


def _of_machine(name: str) -> Any:
    """Return a schema of a shipped machine, ``TYPE.NAME``; None where there is none."""
    from service.machines.completing import SHIPPED

    type_ = name.partition(".")[0]
    return _of_type(type_).get(name) if type_ in SHIPPED else None


def _of_type(type_: str) -> dict[str, Any]:
    from projections.machines.description import schemas
    from service.machines.completing import shipped

    return schemas(shipped(type_))


def _indented(value: Any) -> str:
    import json

    return json.dumps(value, indent=2)


def replay(
    context: typer.Context,
    view: AsOf = None,
    check: bool = option("Compare with the files and the stored state (exit 7)."),
    rebuild: bool = option("Write every file anew."),
    machine: Text = option("ID", "Only a phase machine."),
    dry_run: DryRun = False,
) -> None:
    """Fold the log from its first event and print the state."""
    if sum((check, rebuild, view is not None)) > 1:
        raise InvalidOption("--at and --known-at, --check and --rebuild exclude each other")
    if rebuild and not dry_run:
        _rebuild(context, machine)
    elif check or rebuild:
        _check(context, FINDINGS if check else 0, machine)
    elif machine is not None:
        from cli.commands.machine import reads

        reads.show(context, machine, view)
    else:
        _show(context, view)


def _show(context: typer.Context, view: Moment | None) -> None:
    from projections.files.state_document import document, render

    with reading(context) as workflow:
        state = workflow.log.replayed(view)
        workflow.output.result(
            document(state), lambda: render(state).decode().rstrip("\n"), state=state
        )


def _rebuild(context: typer.Context, machine: str | None) -> None:
    changed = [] if machine is not None else _rebuilt_workflow(context)
    from cli.commands.machine import reads

    changed += reads.rebuilt(context, machine)
    text = f"written anew: {', '.join(changed)}" if changed else "every file was as it should be"
    with reading(context) as workflow:
        workflow.output.result({"written": changed}, lambda: text, state=workflow.log.state())


def _rebuilt_workflow(context: typer.Context) -> list[str]:
    with writing(context, dry_run=False, anywhere=True) as (service, _):
        return service.files.rebuild()


def _check(context: typer.Context, code: int, machine: str | None) -> None:
    with reading(context) as workflow:
        found = _findings(workflow, machine)
        clean = (
            "clean: the files and the stored state are what the log says; results and inputs of "
            "stages are looked at by `wfctl verify`"
        )
        text = "\n".join(f"{f['file']}: {f['kind']}\n{f['diff']}" for f in found)
        state = workflow.log.state()
        workflow.output.result({"findings": found}, lambda: text or clean, state=state)
    if found:
        raise typer.Exit(code)


def _findings(workflow: Reading, machine: str | None) -> list[dict[str, Any]]:
    """Return what is not as the log says: of a machine, or of all that the root has."""
    found: list[dict[str, Any]] = []
    if machine is None:
        listed = workflow.files.differences()
        found += [{"file": d.file, "kind": d.kind, "diff": _diff_of(d)} for d in listed]
    from cli.commands.machine import reads
    from service.machines.log import ids

    machines = ids(workflow.root, workflow.log.store) if machine is None else [machine]
    logs: list[StreamLog[Any]] = [workflow.log] if machine is None else []
    for log in (*logs, *map(workflow.machine, machines)):
        if log.stored_differs():
            place = f"events.db (stored fold of {log.stream})"
            found.append({"file": place, "kind": "changed", "diff": ""})
    theirs = reads.differences_of(workflow.root, workflow.log.store, machine)
    return [*found, *({"file": d.file, "kind": d.kind, "diff": _diff_of(d)} for d in theirs)]


def _diff_of(difference: Difference) -> str:
    lines = difflib.unified_diff(
        difference.expected.decode(errors="replace").splitlines(),
        (difference.found or b"").decode(errors="replace").splitlines(),
        f"{difference.file} (by the log)",
        f"{difference.file} (on disk)",
        lineterm="",
        n=1,
    )
    return "\n".join(lines)
