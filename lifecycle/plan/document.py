"""Check the plan of a workflow completely, and build the initial document from it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError

from lifecycle.errors import InvalidPlan
from lifecycle.payload.models import StageId, WorkflowCreated
from lifecycle.plan.fields import find_unknown_stage_fields, find_unknown_workflow_fields
from lifecycle.plan.loops import loop_problems
from lifecycle.state.conditions import find_cycle
from lifecycle.state.session_budget import config_problems
from lifecycle.sweeps import variables
from lifecycle.sweeps.definition import is_sweep
from lifecycle.sweeps.parameters import PARAMETERS_OF_WFCTL
from lifecycle.sweeps.work import Work, build_work
from lifecycle.words.document import (
    STAGE_FIELDS,
    WORKFLOW_FIELDS,
    convert_named_paths_to_lists,
    default_profiles,
    default_session_config,
    record_key_order,
)
from lifecycle.words.environments import find_environment_problems as problems_of_variables
from lifecycle.words.mandates import (
    MANDATES,
    TIME_LIMIT,
    mandate_problems,
    time_limit_problems,
)
from lifecycle.words.metrics import (
    RESULTS,
    find_malformed_results,
    is_metric_file_output,
    metric_problems,
    parse_result_entries,
    resolve_result,
)
from lifecycle.words.plan_parameters import (
    PLAN_PARAMETERS,
    add_plan_values,
    find_plan_parameter_problems,
)
from lifecycle.words.resources import (
    RESOURCES,
    find_conflicting_requests,
    find_resource_problems,
    parse_resources,
)
from lifecycle.words.rounds import ROUNDS
from lifecycle.words.scheduler_queries import EXPECTED, QUERY_INTERVAL, parse_query_interval
from lifecycle.words.validation_errors import explain_validation_error, get_error_path
from lifecycle.words.values import ID_PATTERN, explain_unfit_stage_id, stage_number

WorkflowId = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\r\n]+$")]
RelativePath = Annotated[str, StringConstraints(min_length=1, pattern=r"^[^\x00\r\n]+$")]


class _Document(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False, defer_build=True)


class PlannedStage(_Document):
    """A stage of a plan. Fields of a running workflow are allowed if they are empty."""

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

    @property
    def work(self) -> Work:
        """The computation of the stage: one command, or one task for each point of a map."""
        return build_work(self.id, self.parameters)


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
    parameters: JsonValue = None


def build_creation_payload(plan: Any, *, created: str, **facts: Any) -> WorkflowCreated:
    """Return the event data that creates a workflow from ``plan`` (decoded JSON, YAML or TOML).

    ``created`` is the time of creation; ``facts`` are further fields of the event. Raises
    `InvalidPlan` with every problem in the plan.
    """
    model = _validate_plan(plan)
    problems = [*_find_unknown_fields(plan), *_find_status_problems(model), *_find_problems(model)]
    if problems:
        raise InvalidPlan(problems)
    document = _build_document(model, created)
    purpose = document.pop("purpose", None)
    found = record_key_order(document)
    # The order of keys is recorded only for objects whose key order is free.
    free = {k: keys for k, keys in found.items() if not re.fullmatch(r"(/stages/\d+)?", k)}
    return WorkflowCreated(
        document=document,
        layout=free,
        purpose=facts.pop("purpose", None) or purpose,
        **facts,
    )


def definition_problems(plan: dict[str, Any]) -> list[str]:
    """Return the problems of a workflow's definition: values, dependencies, backends."""
    try:
        model = _validate_plan(plan)
    except InvalidPlan as error:
        return list(error.data["problems"])
    return _find_problems(model)


def _find_problems(plan: Plan) -> list[str]:
    """Return the problems of a plan whose fields have valid types."""
    known = [(stage.id, stage.parameters) for stage in plan.stages]
    wrong = [*find_plan_parameter_problems(plan.parameters, known, PARAMETERS_OF_WFCTL)]
    plan = _add_plan_values(plan)
    found = [
        *wrong,
        *_find_graph_problems(plan),
        *_find_missing_profiles(plan),
        *_find_remote_profile_problems(plan),
    ]
    found += [*config_problems(plan.session_config), *_find_output_problems(plan)]
    return [
        *found,
        *_find_environment_problems(plan),
        *_find_requested_resource_problems(plan),
        *_find_query_interval_problems(plan),
        *_find_map_problems(plan),
        *_find_metric_problems(plan),
        *_find_limit_problems(plan),
    ]


def _add_plan_values(plan: Plan) -> Plan:
    """Return the plan with the values of its parameters in each stage that uses them."""
    given = plan.parameters if isinstance(plan.parameters, dict) else {}
    stages = [
        stage.model_copy(update={"parameters": add_plan_values(stage.parameters, given)})
        for stage in plan.stages
    ]
    return plan.model_copy(update={"stages": stages})


def complete_stage_definition(definition: dict[str, Any]) -> dict[str, Any]:
    """Return the definition of a stage with default values for all missing fields.

    Raises `InvalidPlan`.
    """
    try:
        model = PlannedStage.model_validate(convert_named_paths_to_lists(definition)[0])
    except ValidationError as error:
        raise InvalidPlan([_format_error(e) for e in error.errors()]) from error
    unfit = explain_unfit_stage_id(model.id)
    problems = [*find_unknown_stage_fields(definition), *_find_unwritable_outputs(model)]
    problems += [] if unfit is None else [f"id: {unfit}"]
    if problems:
        raise InvalidPlan(problems)
    return _move_fields_first({**model.model_dump(mode="json"), "status": "pending"}, STAGE_FIELDS)


def _validate_plan(plan: Any) -> Plan:
    """Return the plan as a pydantic model. Raises `InvalidPlan`."""
    if not isinstance(plan, dict):
        raise InvalidPlan([f"the plan must be an object with fields, found {type(plan).__name__}"])
    try:
        stages = plan.get("stages")
        if isinstance(stages, list):
            plan = {**plan, "stages": [convert_named_paths_to_lists(stage)[0] for stage in stages]}
        return Plan.model_validate(plan)
    except ValidationError as error:
        raise InvalidPlan([_format_error(e) for e in error.errors()]) from error


def _format_error(error: Any) -> str:
    """Return a message for a validation error, preceded by the place of the invalid value."""
    place = ""
    for step in get_error_path(error):
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else str(step)
    return f"{place}: {explain_validation_error(error)}"


def _build_document(model: Plan, created: str) -> dict[str, Any]:
    """Return the initial state document of a new workflow."""
    dumped = model.model_dump(mode="json")
    stages = [
        _move_fields_first({**one, "status": "pending"}, STAGE_FIELDS) for one in dumped["stages"]
    ]
    config = {**default_session_config(), **dumped["session_config"]}
    document = {**dumped, "stages": stages, "session_config": config}
    document["created"] = document["updated"] = created
    document.pop("workflow_status", None)
    for name in (RESULTS, MANDATES, ROUNDS, PLAN_PARAMETERS):
        if document[name] is None:
            del document[name]
    return _move_fields_first(document, WORKFLOW_FIELDS)


def _move_fields_first(values: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """Return the dictionary with the given fields first, in the given order."""
    known = {field: values[field] for field in fields if field in values}
    return known | values


def _find_unknown_fields(plan: dict[str, Any]) -> list[str]:
    """Return a problem for each unknown field of a plan.

    Without this check, a misspelled field would be ignored silently.
    """
    stages = enumerate(plan["stages"])
    of_stages = [
        one for n, stage in stages for one in find_unknown_stage_fields(stage, f"stages[{n}].")
    ]
    results = plan.get(RESULTS)
    of_results = find_malformed_results(results) if results is not None else ()
    return [*find_unknown_workflow_fields(plan), *of_stages, *of_results]


def _find_graph_problems(plan: Plan) -> list[str]:
    """Return problems for duplicate ids, unknown dependencies and circular dependencies."""
    ids = [stage.id for stage in plan.stages]
    problems = [f"stages: {id_} appears {n} times" for id_, n in Counter(ids).items() if n > 1]
    problems += _find_id_problems(ids) if not problems else []
    for stage in plan.stages:
        problems += [
            f"{stage.id}.depends_on: no stage {dep!r}" for dep in stage.depends_on if dep not in ids
        ]
    cycle = find_cycle({stage.id: stage.depends_on for stage in plan.stages})
    if cycle:
        problems.append(
            f"the stages depend on each other in a circle (depends_on): {' -> '.join(cycle)}"
        )
    return problems


def _find_id_problems(ids: list[str]) -> Iterator[str]:
    """Yield problems of stage ids.

    Numbered ids must have no gap, an id must not be reserved, and two ids must not differ only in
    upper and lower case.
    """
    numbered = [id_ for id_ in ids if stage_number(id_) is not None]
    expected = [f"stage-{number}" for number in range(1, len(numbered) + 1)]
    missing = [id_ for id_ in expected if id_ not in numbered]
    if missing:
        yield (
            "stages: the numbers of stages must start at 1 and have no gap; "
            f"{', '.join(missing)} is missing"
        )
    for index, id_ in enumerate(ids):
        unfit = explain_unfit_stage_id(id_)
        if unfit is not None:
            yield f"stages[{index}].id: {unfit}"
    folders: dict[str, str] = {}
    for id_ in ids:
        other = folders.setdefault(id_.lower(), id_)
        if other != id_:
            yield (
                f"stages: {other} and {id_} differ only in upper and lower case, and some "
                "file systems cannot distinguish them; rename one of these stages"
            )


def _find_output_problems(plan: Plan) -> Iterator[str]:
    """Yield the problems of the outputs and file names of all stages."""
    for stage in plan.stages:
        for problem in _find_unwritable_outputs(stage):
            yield f"{stage.id}.{problem}"
        for problem in _find_uncopyable_names(stage):
            yield f"{stage.id}.{problem}"


def _find_uncopyable_names(stage: PlannedStage) -> Iterator[str]:
    """Yield names that DPDispatcher cannot copy: it reads `\\` as `/`, and `a:` as a drive."""
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


def _find_unwritable_outputs(stage: PlannedStage) -> Iterator[str]:
    """Yield a problem for each output that the command of the stage cannot create.

    Such an output is outside the root or, if wfctl copies the files, outside the stage's folder.
    """
    brought_back = "command" in stage.parameters and "backward_files" not in stage.parameters
    for path in stage.outputs:
        steps = [step for step in path.split("/") if step not in ("", ".")]
        if path.startswith("/") or ".." in steps:
            yield f"outputs: {path!r} is outside the root; expected a path relative to the root"
        elif brought_back and (steps[:1] != [stage.id] or len(steps) < 2):
            yield (
                f"outputs: the command of the stage cannot write {path!r}. wfctl copies its files "
                f"back to {stage.id}/, such as {stage.id}/{steps[-1] if steps else 'result'}"
            )


def _find_environment_problems(plan: Plan) -> Iterator[str]:
    """Yield the problems of the software environments of profiles and stages."""
    for name, profile in plan.backend_profiles.items():
        if "environment" in profile:
            for problem in problems_of_variables(profile["environment"]):
                yield f"backend_profiles.{name}.environment.{problem}"
    for stage in plan.stages:
        own = stage.parameters.get("environment")
        for problem in problems_of_variables(own) if isinstance(own, dict) else ():
            yield f"{stage.id}.parameters.environment.{problem}"


def _find_requested_resource_problems(plan: Plan) -> Iterator[str]:
    """Yield the problems of the resources that profiles and stages request."""
    for name, profile in plan.backend_profiles.items():
        for problem in find_resource_problems(profile.get(RESOURCES, {})):
            yield f"backend_profiles.{name}.{RESOURCES}{problem}"
    for stage in plan.stages:
        profile = plan.backend_profiles.get(stage.backend or plan.default_backend, {})
        own, given = stage.parameters.get(RESOURCES), profile.get(RESOURCES)
        place = f"{stage.id}.parameters.{RESOURCES}"
        yield from (f"{place}{problem}" for problem in find_resource_problems(own or {}))
        requests = parse_resources(given, own)
        defaults, overrides = profile.get("resource_defaults"), stage.parameters.get(_OVERRIDES)
        for problem in find_conflicting_requests(requests, defaults, overrides):
            yield f"{place}.{problem}"
        if TIME_LIMIT in requests and TIME_LIMIT in stage.parameters:
            yield (
                f"{place}.{TIME_LIMIT} is also set by parameters.{TIME_LIMIT}; remove one of them"
            )


#: Name of the parameter with the stage's own resources for DPDispatcher.
_OVERRIDES = "resource_overrides"


def _find_map_problems(plan: Plan) -> Iterator[str]:
    """Yield the problems of sweep stages, which compute one task for each point of a map."""
    known = {stage.id: stage for stage in plan.stages}
    for stage in plan.stages:
        for problem in stage.work.problems(stage.outputs):
            yield f"{stage.id}.{problem}"
        like = stage.work.like
        if like is None:
            continue
        if like not in stage.depends_on:
            yield (
                f"{stage.id}.parameters.map.like: expected the id of a stage that depends_on "
                f"names, found {like!r}"
            )
        elif like in known and not is_sweep(known[like].parameters):
            yield f"{stage.id}.parameters.map.like: {like} has no map"


def _find_metric_problems(plan: Plan) -> Iterator[str]:
    """Yield the problems of the stages' metrics and of the workflow's results."""
    for stage in plan.stages:
        for problem in metric_problems(stage.parameters):
            yield f"{stage.id}.{problem}"
        for name, metric in stage.work.output_metrics.items() if stage.outputs else ():
            if not is_metric_file_output(stage.id, stage.outputs, metric):
                yield (
                    f"{stage.id}.parameters.metrics.{name}: {metric.path} is not an output of the "
                    f"stage (outputs: {', '.join(stage.outputs)}); name the file in `outputs`, or "
                    "choose a file from there"
                )
    for text in parse_result_entries(plan.results):
        yield from _find_result_problems(plan, text)


def _find_limit_problems(plan: Plan) -> Iterator[str]:
    """Yield the problems of time limits, sizes, mandates and loops."""
    for stage in plan.stages:
        yield from (f"{stage.id}.{problem}" for problem in time_limit_problems(stage.parameters))
        yield from (
            f"{stage.id}.{problem}" for problem in variables.find_variable_problems(stage.work)
        )
    if plan.mandates is not None:
        yield from mandate_problems(plan.mandates, plan.stages)
    if plan.rounds is not None:
        yield from loop_problems(plan.rounds, plan.stages)


def _find_result_problems(plan: Plan, text: str) -> Iterator[str]:
    """Yield a problem if an entry of ``results`` does not name exactly one number or file."""
    found = resolve_result(text, plan.stages)
    if found is None:
        yield (
            f"results: no stage has {text!r}; expected a number such as stage-2.tc, from "
            "parameters.metrics, or an output such as stage-2/fit.svg"
        )
        return
    stage = next(one for one in plan.stages if one.id == found.stage)
    metric = found.metric
    if metric is not None and metric.name in stage.work.task_metrics and not metric.better:
        yield (
            f"results: {text} has one number for each task of {stage.id}. Add `better` (lower or "
            "higher) to the metric, so that the best number is the result"
        )


def _find_missing_profiles(plan: Plan) -> list[str]:
    """Return a problem for each backend name that has no profile."""
    names = {"default_backend": plan.default_backend}
    names |= {f"{s.id}.backend": s.backend for s in plan.stages if s.backend is not None}
    known = ", ".join(plan.backend_profiles) or "none"
    return [
        f"{place}: backend_profiles has no profile {name!r}; its profiles are: {known}"
        for place, name in names.items()
        if name not in plan.backend_profiles
    ]


def _find_query_interval_problems(plan: Plan) -> Iterator[str]:
    """Yield a problem for each profile whose interval between scheduler queries is invalid."""
    for name, profile in plan.backend_profiles.items():
        if parse_query_interval(profile) is None:
            yield (
                f"backend_profiles.{name}.{QUERY_INTERVAL}: expected {EXPECTED}; found "
                f"{profile[QUERY_INTERVAL]!r:.60}"
            )


def _find_remote_profile_problems(plan: Plan) -> list[str]:
    """Return a problem for each `remote_profile` (login data of a machine) in the plan.

    A plan must not contain login data, because wfctl records and shows it.
    """
    return [
        f"{place}: a plan cannot contain remote_profile. Write the machine settings into a "
        "separate file, and name that file in config_path"
        for place, holder in _list_profile_parts(plan)
        for own in [holder.get("remote_profile") or {}]
        if not (isinstance(own, dict) and set(own) <= {"symlink"})
    ]


def _list_profile_parts(plan: Plan) -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Yield each object in a plan that may contain settings of a machine, with its path."""
    for name, profile in plan.backend_profiles.items():
        yield f"backend_profiles.{name}", profile
        config = profile.get("config")
        yield f"backend_profiles.{name}", config if isinstance(config, dict) else {}
    for stage in plan.stages:
        overrides = stage.parameters.get("resource_overrides")
        place = f"{stage.id}.parameters.resource_overrides"
        yield place, overrides if isinstance(overrides, dict) else {}


def _find_status_problems(plan: Plan) -> list[str]:
    """Return a problem for each stage that is not pending or ready."""
    return [
        f"{stage.id}.status: expected pending in a new workflow, found {stage.status!r}. To take "
        "over a workflow that already runs, use `wfctl import`"
        for stage in plan.stages
        if stage.status not in ("pending", "ready")
    ]
