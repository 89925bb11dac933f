"""``wfctl reconcile`` and ``wfctl rehydrate``: what is really so."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.frame.options import DryRun
from cli.frame.workspace import engine
from cli.terminal.output import say


def reconcile(context: typer.Context, dry_run: DryRun = False) -> None:
    """Compare the log with disk, processes and locks, and bring it in line."""
    from projections.words.account import account, to_dicts
    from reconciler.control.reconcile import reconcile as bring_in_line
    from reconciler.files.freshness import look

    with engine(context, dry_run) as (jobs, output):
        findings = bring_in_line(jobs, dry_run=dry_run)
        state = jobs.service.state()
        text = "\n\n".join(_finding(f.to_dict(), dry_run) for f in findings)
        seen = look(jobs.service.root, jobs.service.log, state)
        stands = account(state, seen)
        output.changed(
            {
                "dry_run": dry_run,
                "findings": [f.to_dict() for f in findings],
                "account": to_dicts(stands),
            },
            lambda: "\n".join([text or "no attempt is under way", *map(str, stands)]),
            state,
            is_rehearsal=dry_run,
            actions=output.next_actions(state, seen),
        )


def _finding(found: dict, dry_run: bool) -> str:  # type: ignore[type-arg]
    verdict = found["verdict"]
    lines = [
        f"{found['stage']} {found['attempt']}",
        f"  verdict   {verdict['name']} (row {verdict['row']}): {verdict['reason']}",
        f"  {'would' if dry_run else 'did'}     {'; '.join(found['steps'])}",
    ]
    return "\n".join(lines + [f"  evidence  {line}" for line in _evidence(found["evidence"])])


def _evidence(evidence: dict) -> list[str]:  # type: ignore[type-arg]
    jobs = [
        f"job {job['name'][:12]}: id {job['id']}, started {job['started']}, exit "
        f"{job['exit_code']}, lock held {job['lock_held']}"
        for job in evidence["jobs"]
    ]
    outputs = [f"output {o['path']}: {o['presence']}" for o in evidence["outputs"]]
    return [
        (
            f"monitor lock held {evidence['monitor_locked']}, monitor alive "
            f"{evidence['monitor_alive']}, tmux session {evidence['session']}"
        ),
        *jobs,
        f"exit code marker: {evidence['exit_marker']['seen']} {evidence['exit_marker']['code']}",
        *outputs,
    ]


def rehydrate(
    context: typer.Context,
    dry_run: DryRun = False,
    brief: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Fit what is printed into N tokens of four bytes; nothing that is under way, "
            "waits for a decision or contradicts is left out.",
        ),
    ] = None,
) -> None:
    """After a lost session: fold, look, repair, and say what to do next."""
    from cli.terminal.briefing import SCREEN, text
    from reconciler.briefing.briefing import Briefing
    from reconciler.briefing.rehydrate import rehydrate as bring_back
    from reconciler.briefing.shorten import fitted, tokens

    def rendered(briefing: Briefing) -> str:
        return output.rendered(
            briefing.to_dict(),
            lambda: text(briefing, output, dry_run),
            state=state,
            actions=briefing.actions,
            is_brief=brief is not None,
        )

    def fits(briefing: Briefing) -> bool:
        if brief is not None:
            return tokens(rendered(briefing)) <= brief
        return not output.is_text or rendered(briefing).count("\n") < SCREEN

    with engine(context, dry_run) as (jobs, output):
        briefing = bring_back(jobs, dry_run=dry_run)
        state = jobs.service.state()
        shown = rendered(fitted(briefing, fits))
        output.print(shown)
    if brief is not None and tokens(shown) > brief:
        say(f"wfctl: nothing more can be left out; {tokens(shown)} tokens of {brief}")
