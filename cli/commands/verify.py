"""``wfctl verify``: whether results and inputs are still what the log holds of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.frame.deciding import Decision, DecisionKey, decide
from cli.frame.options import FINDINGS, KeyedWrites, Text, Texts, argument, option
from cli.frame.workspace import reading, writing
from lifecycle.payload import models as p
from projections.words.account import Deviation, stale
from reconciler.files.freshness import deviations, told
from service.errors import InvalidOption
from service.writing.stream_writer import WriteOptions

Stages = Annotated[Texts, argument("[STAGE...]", "Only these completed stages.")]


def verify(
    context: typer.Context,
    options: KeyedWrites,
    stages: Stages = None,
    deep: bool = option("Compare whole digests, of files untouched since too."),
    adopt: bool = option("Take changed results of the stages as they are now."),
    reason: Text = option("TEXT", "Why, with --adopt."),
    key: DecisionKey = None,
) -> None:
    """Compare results and inputs of completed stages with the log (exit 7: they differ)."""
    if adopt:
        _adopt(context, options, stages or [], reason, key)
        return
    if reason is not None or key is not None or options.dry_run or options.command_id is not None:
        raise InvalidOption("--reason, --key, --dry-run and --command-id go with --adopt")
    from cli.frame.checkpoints import judged

    with reading(context) as workflow:
        state = workflow.state()
        found = deviations(workflow.root.path, state, deep=deep, only=stages)
        reasons = stale(state, found)
        denied = [one._asdict() for one in judged(workflow).findings]
        more = {"denied": denied} if denied else {}
        workflow.output.result(
            {"deep": deep, "found": [one.to_dict() for one in found], "stale": reasons, **more},
            lambda: "\n".join([*(one["message"] for one in denied), *_lines(found, reasons)]),
            state=state,
        )
    if denied or any(one.kind != "touched" for one in found):
        raise typer.Exit(FINDINGS)


def _lines(found: list[Deviation], reasons: dict[str, list[str]]) -> list[str]:
    lines = [str(one) for one in found]
    if any(one.kind == "touched" for one in found):
        lines.append("what was only touched is big: `wfctl verify --deep` compares it")
    return lines + ([told(reasons)] if reasons else []) or ["results and inputs are as recorded"]


def _adopt(
    context: typer.Context,
    options: WriteOptions,
    stages: list[str],
    reason: str | None,
    key: Path | None,
) -> None:
    from cli.frame.writes import tell
    from reconciler.attempt.markers import digests
    from reconciler.files.freshness import changed_results

    if not stages or not reason:
        raise InvalidOption("--adopt takes the stages whose results it is about, and a --reason")
    with writing(context, options.dry_run) as (service, output):
        root, state = service.root.path, service.state()
        decisions: list[Decision] = []
        for id_ in stages:
            changed = changed_results(root, state.stage(id_), deep=True)
            found = digests(root, [one.path for one in changed])
            now = [p.FileDigest(path=f.path, size=f.size, sha256=f.sha256) for f in found]
            lines = [f"{id_}: results that were changed afterwards count as they are:"]
            lines += [f"  {one.path}, {one.size} bytes, SHA-256 {one.sha256}" for one in now]
            if now:
                command = p.ResultsAdopted(stage=id_, outputs=now, reason=reason)
                decisions.append(Decision(command, id_, "\n".join(lines)))
        line = f"wfctl verify {' '.join(stages)} --adopt --reason TEXT"
        tell(output, decide(service, decisions, line, key, options), options)
