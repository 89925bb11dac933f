"""``wfctl reconcile``: compare the log with the jobs and record the differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cli.frame.context import Context
from cli.frame.options import DryRun
from cli.frame.workspace import open_job_runner


def reconcile(context: Context, dry_run: DryRun = False) -> None:
    """Compare the log with files, processes and the scheduler.

    wfctl records each difference. If a job is lost, wfctl finds the job or starts it again.
    """
    from projections.words.account import list_attention_items, to_dicts
    from reconciler.control.reconcile import reconcile_stages as bring_in_line
    from reconciler.files.freshness import find_log_differences

    with open_job_runner(context, dry_run) as (jobs, output):
        findings = [one.to_dict() for one in bring_in_line(jobs, dry_run=dry_run)]
        state = jobs.service.state()
        text = "\n\n".join("\n".join(_format_finding(one, dry_run)) for one in findings)
        seen = find_log_differences(jobs.service.root, jobs.service.log, state)
        stands = list_attention_items(state, seen)
        output.print_change(
            {"dry_run": dry_run, "findings": findings, "account": to_dicts(stands)},
            lambda: "\n".join([text or "no attempt is running", *map(str, stands)]),
            state,
            is_rehearsal=dry_run,
            actions=output.next_actions(state, seen),
        )


def _format_finding(found: dict[str, Any], dry_run: bool) -> Iterator[str]:
    verdict, evidence = found["verdict"], found["evidence"]
    yield f"{found['stage']} {found['attempt']}"
    yield f"  verdict   {verdict['name']} (row {verdict['row']}): {verdict['reason']}"
    yield f"  {'would' if dry_run else 'did'}     {'; '.join(found['steps'])}"
    yield (
        f"  evidence  monitor lock held {evidence['monitor_locked']}, monitor alive "
        f"{evidence['monitor_alive']}, tmux session {evidence['session']}"
    )
    for job in evidence["jobs"]:
        yield (
            f"  evidence  job {job['name'][:12]}: id {job['id']}, started {job['started']}, exit "
            f"{job['exit_code']}, lock held {job['lock_held']}"
        )
    marker = evidence["exit_marker"]
    yield f"  evidence  exit code marker: {marker['seen']} {marker['code']}"
    yield from (f"  evidence  output {o['path']}: {o['presence']}" for o in evidence["outputs"])
