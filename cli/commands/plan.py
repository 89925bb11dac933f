"""``wfctl plan``: a plan looked at before anything is made of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from cli.frame.impact import begun_with
from cli.frame.options import AgreeingKey, Text, Writes, argument, option
from cli.frame.workspace import settings_of
from cli.terminal.output import Output

#: The answer where a plan changes nothing.
_NOTHING: dict[str, Any] = {"dry_run": False, "repeated": False, "events": [], "changed": False}


def check(
    context: typer.Context,
    plan: Annotated[str, argument("FILE", "JSON, YAML or TOML; - is stdin.")],
) -> None:
    """Say whether `wfctl init` would take a plan, with every problem and advice; writes nothing."""
    from lifecycle.plan.advice import parameters_of
    from lifecycle.plan.fields import WORDS_OF_PARAMETER
    from service.documents.plan_file import read_plan
    from service.questions.causes import advice_of

    settings = settings_of(context)
    state = begun_with(read_plan(plan), settings.start)
    parameters = {stage.id: parameters_of(stage.parameters) for stage in state.stages.values()}
    used = {name for of in parameters.values() for name in of["wfctl"]}
    words = {name: text for name, text in WORDS_OF_PARAMETER.items() if name in used}
    found = advice_of(settings.start, state)
    data = {
        "workflow": state.id,
        "stages": [*state.stages],
        "problems": [],
        "advice": found,
        "parameters": parameters,
        "words": words,
    }
    head = f"{plan}: a plan of {len(state.stages)} stages; `wfctl init {plan}` takes it"
    told = [f"{id_}: {line}" for id_, of in parameters.items() for line in _shown(of)]
    told += [f"  {name}: {text}" for name, text in words.items()]
    told += ["advice, which nothing enforces:", *(f"  {line}" for line in found)] if found else []
    Output(settings).result(data, lambda: "\n".join([head, *told]))


def _shown(parameters: dict[str, list[str]]) -> Iterator[str]:
    for reader, names in parameters.items():
        if names:
            whose = "wfctl reads" if reader == "wfctl" else "its command alone reads"
            yield f"{whose} {', '.join(names)}"


def apply(
    context: typer.Context,
    options: Writes,
    plan: Annotated[str, argument("FILE", "JSON, YAML or TOML; - is stdin.")],
    reason: Text = option("TEXT", "Why."),
    key: AgreeingKey = None,
) -> None:
    """Make the workflow what an edited plan says: one amendment, shown whole, decided once."""
    from cli.commands.amend import decide, tell_proposals
    from cli.frame.consent import consenter_of
    from cli.frame.workspace import engine
    from lifecycle.rules.amendable import replanned
    from service.documents.plan_file import read_plan
    from service.errors import InvalidOption

    document = read_plan(plan)
    with engine(context, options.dry_run) as (jobs, output):
        service = jobs.service
        options = replace(options, content={"plan apply": document, "reason": reason})
        proposed = service.first_answer(options)
        state = service.state()
        consenter = consenter_of(state.consent, service.actor, key, None)
        if proposed is None:
            command = replanned(state, begun_with(document, service.root.path), reason)
            if command is None:
                said = f"{plan}: the workflow is as the plan says; there is nothing to change"
                output.result(_NOTHING, lambda: said, state=state)
                return
            if not reason:
                raise InvalidOption("a changed plan says why: give --reason TEXT")
            proposed = service.handle(command, options=options)
        if options.dry_run:
            tell_proposals(service, output, proposed, options)
            return
        decide(jobs, output, proposed, consenter)
