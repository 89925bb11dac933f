"""``wfctl reconcile`` and ``wfctl rehydrate``: what is really so."""

from __future__ import annotations

import typer

from cli.options import DryRun
from cli.output import Output
from cli.workspace import engine


def reconcile(context: typer.Context, dry_run: DryRun = False) -> None:
    """Compare the log with disk, processes and locks, and bring it in line."""
    from reconciler.reconcile import reconcile as bring_in_line

    with engine(context, dry_run) as (jobs, output):
        findings = bring_in_line(jobs, dry_run=dry_run)
        state = jobs.service.state()
        text = "\n\n".join(_finding(f.to_dict(), dry_run) for f in findings)
        output.result(
            {"dry_run": dry_run, "findings": [f.to_dict() for f in findings]},
            lambda: text or "no attempt is under way",
            state=state,
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


def rehydrate(context: typer.Context, dry_run: DryRun = False) -> None:
    """After a lost session: fold, look, repair, and say what to do next."""
    from reconciler.rehydrate import Briefing, summary
    from reconciler.rehydrate import rehydrate as bring_back

    def text(briefing: Briefing, output: Output) -> str:
        state = briefing.state
        lines = [
            (
                f"{output.style(state.id, '1')}: {state.workflow_status or 'active'}, "
                f"version {state.head} of its log; {summary(state)}"
            ),
            f"last recorded before: {briefing.before.updated}",
        ]
        for finding in briefing.findings:
            lines += ["", _finding(finding.to_dict(), dry_run)]
        lines += _section("repaired" if not dry_run else "would repair", briefing.repaired)
        lines += _section("waits for somebody", briefing.waiting)
        lines += _section("next", [f"{a.command}  ({a.reason})" for a in briefing.actions])
        return "\n".join(lines)

    with engine(context, dry_run) as (jobs, output):
        briefing = bring_back(jobs, dry_run=dry_run)
        output.result(
            briefing.to_dict(),
            lambda: text(briefing, output),
            state=briefing.state,
            actions=briefing.actions,
        )


def _section(title: str, lines: list[str] | tuple[str, ...]) -> list[str]:
    return ["", f"{title}:", *(f"  {line}" for line in lines)] if lines else []
