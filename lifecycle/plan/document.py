"""A plan: the document a workflow is created from, checked whole before anything is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError

from lifecycle.errors import InvalidPlan
from lifecycle.payload.models import StageId, WorkflowCreated
from lifecycle.plan.fields import unknown_in_stage, unknown_in_workflow
from lifecycle.plan.loops import loop_problems
from lifecycle.state.conditions import config_problems, find_cycle
from lifecycle.sweeps import definition as sweep
from lifecycle.sweeps import variables
from lifecycle.words.document import (
    STAGE_FIELDS,
    WORKFLOW_FIELDS,
    default_profiles,
    default_session_config,
    layout_of,
    with_listed_paths,
)
from lifecycle.words.mandates import MANDATES, limit_problems, mandate_problems
from lifecycle.words.metrics import (
    RESULTS,
    is_output,
    metric_problems,
    metrics_of,
    misshapen_results,
    resolved,
    results_of,
)
from lifecycle.words.rounds import ROUNDS
from lifecycle.words.values import (
    ID_PATTERN,
    misfit,
    stage_number,
    unfit_for_stage,
)
from lifecycle.words.values import problems as problems_of_variables

WorkflowId = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\r\n]+$")]
RelativePath = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00\r\n]+$")]


class _Document(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, defer_build=True)


class PlannedStage(_Document):
    """A stage as a plan gives it; operational fields may be there, with nothing in them."""

    id: StageId
    name: Name
    status: str = "pending"
    depends_on: list[str] = []
    backend: str | None = None
    inputs: list[RelativePath] = []
    outputs: list[RelativePath] = []
    parameters: dict[str, JsonValue] = {}
    success_criteria: str = ""
    started_at: None = None
    completed_at: None = None
    retry_count: Annotated[int, Field(le=0)] = 0
    last_error: None = None
    running_process: None = None


class Plan(_Document):
    """A whole plan, with the fields of ``workflow-state.json``."""

    workflow_id: WorkflowId
    purpose: str | None = None
    version: Annotated[int, Field(ge=1, le=1)] = 1
    experiment_design: str | None = None
    workflow_plan: str | None = None
    amendments: Annotated[list[JsonValue], Field(max_length=0)] = []
    session_config: dict[str, JsonValue] = Field(default_factory=default_session_config)
    default_backend: str = "local"
    backend_profiles: dict[str, dict[str, JsonValue]] = Field(default_factory=default_profiles)
    stages: Annotated[list[PlannedStage], Field(min_length=1)]
    results: JsonValue = None
    mandates: JsonValue = None
    rounds: JsonValue = None


def create(plan: Any, *, created: str, **facts: Any) -> WorkflowCreated:
    """Return the payload that creates the workflow of ``plan`` (decoded JSON, YAML or TOML).

    ``created`` is the time it is created at; ``facts`` are further fields of the payload.
    Raises `InvalidPlan` with every problem that was found.
    """
    model = _validated(plan)
    problems = [*_unknown(plan), *_statuses(model), *_problems(model)]
    if problems:
        raise InvalidPlan(problems)
    document = _document(model, created)
    purpose = document.pop("purpose", None)
    found = layout_of(document)
    # The order of the others is prescribed.
    free = {k: keys for k, keys in found.items() if not re.fullmatch(r"(/stages/\d+)?", k)}
    return WorkflowCreated(
        document=document,
        layout=free,
        purpose=facts.pop("purpose", None) or purpose,
        **facts,
    )


def definition_problems(plan: dict[str, Any]) -> list[str]:
    """Return what is wrong with the definition of a workflow: values, graph, backends."""
    try:
        model = _validated(plan)
    except InvalidPlan as error:
        return list(error.data["problems"])
    return _problems(model)


def _problems(plan: Plan) -> list[str]:
    found = [*_graph(plan), *_backends(plan), *_connections(plan)]
    found += [*config_problems(plan.session_config), *_outputs(plan)]
    return [*found, *_environments(plan), *_maps(plan), *_numbers(plan), *_limits(plan)]


def defined_stage(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a stage's definition with every field; raises `InvalidPlan`."""
    try:
        model = PlannedStage.model_validate(with_listed_paths(definition)[0])
    except ValidationError as error:
        raise InvalidPlan([_problem(e) for e in error.errors()]) from error
    unfit = unfit_for_stage(model.id)
    problems = [*unknown_in_stage(definition), *_outputs_out_of_reach(model)]
    problems += [] if unfit is None else [f"id: {unfit}"]
    if problems:
        raise InvalidPlan(problems)
    return _in_order({**model.model_dump(mode="json"), "status": "pending"}, STAGE_FIELDS)


def _validated(plan: Any) -> Plan:
    if not isinstance(plan, dict):
        raise InvalidPlan([f"expected an object at the top, found {type(plan).__name__}"])
    try:
        stages = plan.get("stages")
        if isinstance(stages, list):
            plan = {**plan, "stages": [with_listed_paths(stage)[0] for stage in stages]}
        return Plan.model_validate(plan)
    except ValidationError as error:
        raise InvalidPlan([_problem(e) for e in error.errors()]) from error


def _problem(error: Any) -> str:
    place = ""
    for step in error["loc"]:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else str(step)
    return f"{place}: {misfit(error)}"


def _document(model: Plan, created: str) -> dict[str, Any]:
    dumped = model.model_dump(mode="json")
    stages = [_in_order({**one, "status": "pending"}, STAGE_FIELDS) for one in dumped["stages"]]
    config = {**default_session_config(), **dumped["session_config"]}
    document = {**dumped, "stages": stages, "session_config": config}
    document["created"] = document["updated"] = created
    document.pop("workflow_status", None)
    for name in (RESULTS, MANDATES, ROUNDS):
        if document[name] is None:
            del document[name]
    return _in_order(document, WORKFLOW_FIELDS)


def _in_order(values: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    known = {field: values[field] for field in fields if field in values}
    return known | values


def _unknown(plan: dict[str, Any]) -> list[str]:
    """Refuse what no plan has: it would be taken in silence, and do nothing."""
    stages = enumerate(plan["stages"])
    of_stages = [one for n, stage in stages for one in unknown_in_stage(stage, f"stages[{n}].")]
    results = plan.get(RESULTS)
    of_results = misshapen_results(results) if results is not None else ()
    return [*unknown_in_workflow(plan), *of_stages, *of_results]


def _graph(plan: Plan) -> list[str]:
    ids = [stage.id for stage in plan.stages]
    problems = [f"stages: {id_} appears {n} times" for id_, n in Counter(ids).items() if n > 1]
    problems += _names(ids) if not problems else []
    for stage in plan.stages:
        problems += [
            f"{stage.id}.depends_on: no stage {dep!r}" for dep in stage.depends_on if dep not in ids
        ]
    cycle = find_cycle({stage.id: stage.depends_on for stage in plan.stages})
    if cycle:
        problems.append(f"depends_on goes in a circle: {' -> '.join(cycle)}")
    return problems


def _names(ids: list[str]) -> Iterator[str]:
    """Say which ids leave a gap in the numbers, mean something else, or differ in case alone."""
    numbered = [id_ for id_ in ids if stage_number(id_) is not None]
    expected = [f"stage-{number}" for number in range(1, len(numbered) + 1)]
    missing = [id_ for id_ in expected if id_ not in numbered]
    if missing:
        yield f"stages: numbers run from 1 without a gap; {', '.join(missing)} is missing"
    for index, id_ in enumerate(ids):
        unfit = unfit_for_stage(id_)
        if unfit is not None:
            yield f"stages[{index}].id: {unfit}"
    folders: dict[str, str] = {}
    for id_ in ids:
        other = folders.setdefault(id_.lower(), id_)
        if other != id_:
            yield f"stages: {other} and {id_} differ in case alone; some disks take them for one"


def _outputs(plan: Plan) -> Iterator[str]:
    for stage in plan.stages:
        for problem in _outputs_out_of_reach(stage):
            yield f"{stage.id}.{problem}"
        for problem in _names_not_copied(stage):
            yield f"{stage.id}.{problem}"


def _names_not_copied(stage: PlannedStage) -> Iterator[str]:
    """Refuse names that DPDispatcher cannot copy: it reads `\\` as `/`, and `a:` as a drive."""
    if "command" not in stage.parameters:
        return
    outputs = [] if "backward_files" in stage.parameters else stage.outputs
    for field, paths in (("inputs", stage.inputs), ("outputs", outputs)):
        for path in paths:
            own = path.removeprefix(f"{stage.id}/")
            if "\\" in path or own[1:2] == ":":
                yield (
                    f"{field}: DPDispatcher cannot copy {path!r}; expected a name without a "
                    "backslash, and without a colon as its second character"
                )


def _outputs_out_of_reach(stage: PlannedStage) -> Iterator[str]:
    """Refuse outputs that no attempt of the stage can leave where they are looked for."""
    brought_back = "command" in stage.parameters and "backward_files" not in stage.parameters
    for path in stage.outputs:
        steps = [step for step in path.split("/") if step not in ("", ".")]
        if path.startswith("/") or ".." in steps:
            yield f"outputs: {path!r} lies outside the root; expected a path relative to it"
        elif brought_back and (steps[:1] != [stage.id] or len(steps) < 2):
            yield (
                f"outputs: {path!r} is out of its reach; what its command leaves is brought back "
                f"to {stage.id}/, such as {stage.id}/{steps[-1] if steps else 'result'}"
            )


def _environments(plan: Plan) -> Iterator[str]:
    """Say what is wrong with the software that profiles and stages ask for."""
    for name, profile in plan.backend_profiles.items():
        if "environment" in profile:
            for problem in problems_of_variables(profile["environment"]):
                yield f"backend_profiles.{name}.environment.{problem}"
    for stage in plan.stages:
        own = stage.parameters.get("environment")
        for problem in problems_of_variables(own) if isinstance(own, dict) else ():
            yield f"{stage.id}.parameters.environment.{problem}"


def _maps(plan: Plan) -> Iterator[str]:
    """Say what is wrong with stages that are computed for many points."""
    known = {stage.id: stage for stage in plan.stages}
    for stage in plan.stages:
        for problem in sweep.problems(stage.id, stage.parameters, stage.outputs):
            yield f"{stage.id}.{problem}"
        if not sweep.is_sweep(stage.parameters):
            continue
        given: Any = stage.parameters[sweep.MAP]
        like = given.get("like")
        other = known.get(like) if isinstance(like, str) else None
        if isinstance(like, str) and like not in stage.depends_on:
            yield f"{stage.id}.parameters.map.like: expected a stage of depends_on, found {like!r}"
        elif other is not None and not sweep.is_sweep(other.parameters):
            yield f"{stage.id}.parameters.map.like: {like} has no map"


def _numbers(plan: Plan) -> Iterator[str]:
    """Say what is wrong with the numbers that stages are asked for, and with the results."""
    for stage in plan.stages:
        for problem in metric_problems(stage.parameters):
            yield f"{stage.id}.{problem}"
        if sweep.is_sweep(stage.parameters) or not stage.outputs:
            continue
        for name, metric in metrics_of(stage.parameters).items():
            if not is_output(stage.id, stage.outputs, metric):
                yield (
                    f"{stage.id}.parameters.metrics.{name}: {metric.path} is not among its outputs "
                    f"({', '.join(stage.outputs)}), and only of those there is a digest"
                )
    for text in results_of(plan.results):
        yield from _result(plan, text)


def _limits(plan: Plan) -> Iterator[str]:
    """Say what is wrong with time limits, sizes, and with what a person allows beforehand."""
    for stage in plan.stages:
        yield from (f"{stage.id}.{problem}" for problem in limit_problems(stage.parameters))
        yield from (f"{stage.id}.{problem}" for problem in variables.problems(stage.parameters))
    if plan.mandates is not None:
        yield from mandate_problems(plan.mandates, plan.stages)
    if plan.rounds is not None:
        yield from loop_problems(plan.rounds, plan.stages)


def _result(plan: Plan, text: str) -> Iterator[str]:
    found = resolved(text, plan.stages)
    if found is None:
        yield (
            f"results: no stage has {text!r}; expected a number such as stage-2.tc, from "
            "parameters.metrics, or an output such as stage-2/fit.svg"
        )
        return
    stage = next(one for one in plan.stages if one.id == found.stage)
    if found.metric is not None and sweep.is_sweep(stage.parameters) and not found.metric.better:
        yield (
            f"results: {text} is a number of each task of {stage.id}; with `better` (lower or "
            "higher) beside it the best of them is the result"
        )


def _backends(plan: Plan) -> list[str]:
    names = {"default_backend": plan.default_backend}
    names |= {f"{s.id}.backend": s.backend for s in plan.stages if s.backend is not None}
    known = ", ".join(plan.backend_profiles) or "none"
    return [
        f"{place}: no profile {name!r} in backend_profiles (there: {known})"
        for place, name in names.items()
        if name not in plan.backend_profiles
    ]


def _connections(plan: Plan) -> list[str]:
    """Refuse what lets one into a machine: the plan is recorded and shown for good."""
    return [
        f"{place}: remote_profile does not belong into a plan; put the machine into a file of its "
        "own and name it in config_path"
        for place, holder in _holders(plan)
        for own in [holder.get("remote_profile") or {}]
        if not (isinstance(own, dict) and set(own) <= {"symlink"})
    ]


def _holders(plan: Plan) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Yield each part of a plan in which a machine could be described, and its place."""
    for name, profile in plan.backend_profiles.items():
        yield f"backend_profiles.{name}", profile
        config = profile.get("config")
        yield f"backend_profiles.{name}", config if isinstance(config, dict) else {}
    for stage in plan.stages:
        overrides = stage.parameters.get("resource_overrides")
        place = f"{stage.id}.parameters.resource_overrides"
        yield place, overrides if isinstance(overrides, dict) else {}


def _statuses(plan: Plan) -> list[str]:
    return [
        f"{stage.id}.status: {stage.status!r}; a new workflow starts with pending stages "
        "(`wfctl import` takes over one that is under way)"
        for stage in plan.stages
        if stage.status not in ("pending", "ready")
    ]
