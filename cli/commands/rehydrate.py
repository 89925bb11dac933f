"""``wfctl rehydrate``: print all that a new session needs to go on with the workflow."""

from __future__ import annotations

from cli.frame.context import Context
from cli.frame.options import DryRun, option
from cli.frame.workspace import open_job_runner
from cli.terminal.output import print_message


def rehydrate(
    context: Context,
    dry_run: DryRun = False,
    brief: int | None = option(
        "N",
        "Shorten the output to N tokens (4 bytes each). Running jobs, open decisions "
        "and contradictions are always printed.",
        min=1,
    ),
) -> None:
    """Recover after a lost session and show what to do next.

    wfctl compares the log with files, processes and the scheduler, repairs differences, and prints
    the state and the next steps.
    """
    from cli.terminal.briefing import SCREEN, format_briefing
    from reconciler.briefing.briefing import Briefing, count_tokens, fit_briefing
    from reconciler.briefing.rehydrate import rehydrate as bring_back

    def rendered(briefing: Briefing) -> str:
        return output.rendered(
            briefing.to_dict(),
            lambda: format_briefing(briefing, output, dry_run),
            state=state,
            actions=briefing.actions,
            is_brief=brief is not None,
        )

    def fits(briefing: Briefing) -> bool:
        if brief is not None:
            return count_tokens(rendered(briefing)) <= brief
        return not output.is_text or rendered(briefing).count("\n") < SCREEN

    with open_job_runner(context, dry_run) as (jobs, output):
        briefing = bring_back(jobs, dry_run=dry_run)
        state = jobs.service.state()
        shown = rendered(fit_briefing(briefing, fits))
        output.print(shown)
    if brief is not None and count_tokens(shown) > brief:
        print_message(
            f"wfctl: the answer cannot be shortened further: it has {count_tokens(shown)} tokens, "
            f"and the limit is {brief}"
        )
