"""Describe how the results of a workflow were produced and approved."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from eventstore.chain import canonical_json, sha256_hex
from lifecycle.state.run_files import find_data_files_from_jobs
from lifecycle.state.status import Status
from lifecycle.state.workflow import PLAN, Amendment, Attempt, Stage, Workflow
from lifecycle.words.scripts import MISSING
from projections.words.remaining_processes import describe_remaining_processes
from projections.words.text import name_approver, truncate_utc_to_seconds


class AttentionItem(NamedTuple):
    """A fact about the workflow that needs attention, such as a file change or failure.

    ``kind``: log, root, plan, amendment, unagreed, drift, verdict, judgement, stop, failure, stale,
    script, input, environment, program, taken over, adopted, deleted, kept tasks, edit, rewritten,
    module, journal, process, or changed, missing or touched result. ``person`` means that the item
    waits for a person. ``stage`` is its stage, if any. A person can accept the item by its id
    ``entry``, and ``agreed`` describes this acceptance. ``file_entry`` is the id of a single file
    in an input folder. Accepting it is sufficient too.
    """

    kind: str
    subject: str
    text: str
    stage: str | None = None
    person: bool = True
    entry: str | None = None
    agreed: str | None = None
    file_entry: str | None = None

    @property
    def is_of_files(self) -> bool:
        """Return whether the item concerns changed files or results computed from them."""
        return self.kind in ("drift", "stale") or self.kind.endswith(" result")

    def __str__(self) -> str:
        return " ".join(f"{self.kind} {self.subject}: {self.text}".split())


#: Seconds after the end of a job in which a change of its files is still attributed to the job.
#: Clocks of different computers may differ.
_MARGIN = 2.0


def find_rewritten_results(stage: Stage, times: Mapping[str, float]) -> Iterator[str]:
    """Yield descriptions of results that were changed after the stage's job ended.

    ``times`` maps the files that the log does not record to their modification times, in seconds
    since the epoch.
    """
    attempt = stage.source
    if attempt is None:
        return
    for one in stage.attempts:
        for late in (one.tasks or {}).get("late", []):
            yield f"{late['path']} was written {late['seconds']} s after its task ended"
    own = stage.work.tables  # wfctl writes the tables later
    for one in _list_sources(stage, attempt):
        left = _map_files_at_end(one)
        for result in one.results:
            if result["path"] not in own:
                yield from _of_result(one, result, left, times if one is attempt else {})


def _list_sources(stage: Stage, newest: Attempt) -> list[Attempt]:
    """Return the attempts that produced results: of each earlier round, then the newest."""
    last = {one.round: one for one in stage.attempts if one.results and one.round < newest.round}
    return [*(one for number, one in last.items() if number), newest]


def _of_result(
    attempt: Attempt,
    result: dict[str, Any],
    left: Mapping[str, dict[str, Any]],
    times: Mapping[str, float],
) -> Iterator[str]:
    path, end = result["path"], _get_end_time(attempt)
    there = left.get(path, {})
    if there.get("sha256") not in (None, result["sha256"]):
        yield (
            f"{path} differs from the output of {attempt.id}: the file was rewritten after "
            "the job ended"
        )
        return
    written = there["mtime"] / 1e9 if there.get("mtime") else 0.0
    if there.get("sha256") is None:
        written = max(written, times.get(path, 0.0))
    if end is not None and written > end + _MARGIN:
        yield f"{path} was written {written - end:.0f} s after the job ended"


def _list_contributing_attempts(stage: Stage, newest: Attempt) -> list[Attempt]:
    """Return the attempts whose jobs computed results. For a sweep, return all attempts."""
    return stage.attempts if newest.tasks_given is not None else _list_sources(stage, newest)


def _find_exchanged_scripts(attempt: Attempt) -> Iterator[str]:
    """Yield descriptions of scripts that changed in a job's folder while the job ran."""
    known = {**(attempt.beside or {}), **attempt.scripts}
    for path in attempt.exchanged:
        text = f"the copy of {path} in the folder of the job of {attempt.id} changed during the job"
        if path not in known:
            text = f"{path} appeared during the job of {attempt.id} and hid another module"
        yield text


def _find_unapproved_scripts(state: Workflow, attempt: Attempt) -> Iterator[tuple[str, str]]:
    """Yield each script of an attempt that no person approved, with a description."""
    if not attempt.unapproved:
        return
    decisions = [one for one in state.amendments.values() if one.policy and one.mandate is None]
    agreed = {
        item for one in decisions for item in one.scripts.items()
    } | find_data_files_from_jobs(state)
    began = not any((one.decided_at or "") <= attempt.started_at for one in decisions)
    when = "the workflow was created" if began else "the last approval"
    for path in attempt.unapproved:
        if (path, attempt.scripts.get(path)) not in agreed:
            yield path, f"{attempt.id} ran {path}, which was created or changed after {when}"


def _find_remaining_processes(stage: Stage, source: Attempt) -> Iterator[str]:
    """Yield a warning for each attempt whose command left processes running."""
    for attempt in _list_contributing_attempts(stage, source):
        if text := describe_remaining_processes(stage.id, attempt):
            yield text


def _edited_journals(stage: Stage) -> Iterator[str]:
    """Yield descriptions of the task journals that another program or a person edited.

    A task journal is a file that records how the tasks of a sweep ended.
    """
    for attempt in stage.attempts:
        for path in (attempt.tasks or {}).get("edited", []):
            yield f"{path}, which records how tasks of {attempt.id} ended, was edited"


def list_unrecorded_results(stage: Stage) -> list[str]:
    """Return the paths of results that were not recorded when their job ended."""
    attempt = stage.source
    if attempt is None or attempt.ended_at is None or stage.reused is not None:
        return []
    left = _map_files_at_end(attempt)
    return [one["path"] for one in attempt.results if "sha256" not in left.get(one["path"], {})]


def _map_files_at_end(attempt: Attempt) -> dict[str, dict[str, Any]]:
    """Return the files that were recorded when the job of an attempt ended, by path.

    Attempts recorded by an old version of wfctl have files without digests.
    """
    seen = attempt.evidence or {} if attempt.action == "succeeded" else {}
    outputs = {one["path"]: one for one in seen.get("outputs", [])}
    known = {path: {k: v for k, v in one.items() if v is not None} for path, one in outputs.items()}
    return {one["path"]: one for one in attempt.left if not one.get("at")} | known


def _get_end_time(attempt: Attempt) -> float | None:
    """Return the latest recorded end time of the job, in seconds since the epoch.

    Return None if no time is known.
    """
    seen = attempt.evidence or {}
    said = [job.get("ended_at") for job in seen.get("jobs", [])]
    said += [(seen.get(name) or {}).get("mtime") for name in ("exit_marker", "done_marker")]
    ends = [one / 1e9 for one in said if one]
    if attempt.ended_at is not None:
        ends.append(datetime.fromisoformat(attempt.ended_at).timestamp())
    return max(ends, default=None)


#: Prefixes of environment variables that determine which program or library runs.
_INTERPRETER = ("PATH", "PYTHON", "python3", "LD_", "CONDA_", "VIRTUAL_ENV")
#: Names of modules that belong to Python, or that Python imports before it runs any script.
_OWN = sys.stdlib_module_names | {"sitecustomize", "usercustomize"}
_LIES = "is in a folder from which a script imports"
_NOBODY = "without the approval of a person"
#: Maximum number of missing outputs to name in a message.
_NAMED = 5
#: Consent policy → text that states who approved and how the name was verified.
_POLICIES = {
    "terminal": "at a terminal by {by} (name not verified)",
    "trust": "by {by} (policy trust: anyone can approve)",
    "signature": "signed by {by}",
    "mandate": "by the mandate of {by}",
}


def list_origin_items(
    state: Workflow, times: Mapping[str, float], gone: Mapping[str, Sequence[str]]
) -> Iterator[AttentionItem]:
    """Yield an item for each unusual fact about the results of a completed stage.

    ``times`` maps results that were not recorded at the end of their job to their modification
    times. ``gone`` contains the missing outputs of each stage that was imported as completed.
    """
    if state.plan is None and state.consent != "trust":  # the policy `trust` states this itself
        text = "nobody approved the script, because nobody was asked when the workflow was created"
        yield AttentionItem("unagreed", PLAN, text, person=False)
    for stage in state.stages.values():
        if stage.status is not Status.COMPLETED:
            continue
        yield from _list_kept_tasks(stage)
        yield from _list_adopted_result_items(stage)
        if stage.source is None:
            yield _taken_over(stage, gone.get(stage.id))
        else:
            yield from _list_computation_items(state, stage, stage.source, times)


def _taken_over(stage: Stage, gone: Sequence[str] | None) -> AttentionItem:
    text = "completed by an imported record; nothing verified it"
    if gone:
        text = (
            f"{describe_missing_outputs(gone)}; only an imported record states that the stage "
            "is completed"
        )
    return _build_item("taken over", stage, text)


def _list_computation_items(
    state: Workflow, stage: Stage, source: Attempt, times: Mapping[str, float]
) -> Iterator[AttentionItem]:
    """Yield an item for each difference between a computation and its record in the log."""
    yield from (
        _build_item("rewritten", stage, text) for text in find_rewritten_results(stage, times)
    )
    yield from (_build_item("journal", stage, text) for text in _edited_journals(stage))
    yield from (
        _build_item("process", stage, text) for text in _find_remaining_processes(stage, source)
    )
    for one in _list_contributing_attempts(stage, source):
        for path, text in _find_unapproved_scripts(state, one):
            yield _file_item("script", stage, one, path, one.scripts.get(path), text)
        yield from (_build_item("script", stage, text) for text in _find_exchanged_scripts(one))
    yield from _list_shadowing_files(stage, source)
    yield from _describe_changed_checks(state, stage, source)
    for failed in _failed_before(stage):
        yield from _list_unapproved_changes_since(state, stage, failed, source)
    yield from _list_environment_items(stage, source, state.agreed)


def _list_adopted_result_items(stage: Stage) -> Iterator[AttentionItem]:
    """Yield an item for each result that was changed and accepted, or recorded as deleted."""
    for one in stage.adopted:
        how = describe_agreement(one["policy"], approver_of(one))
        text = f"{', '.join(one['paths'])}: changed by hand and adopted, {how or _NOBODY}"
        yield _build_item("adopted", stage, text)._replace(agreed=_describe_decision_approval(one))
    for one in stage.deleted:
        how = describe_agreement(one["policy"], approver_of(one))
        text = f"{describe_deleted(one)}, {how or _NOBODY}: {one['reason']}"
        yield _build_item("deleted", stage, text)._replace(agreed=_describe_decision_approval(one))


def describe_deleted(result: Mapping[str, Any]) -> str:
    """Return a message about when a result was recorded as deleted, and the digest it had."""
    at, digest = truncate_utc_to_seconds(result["at"]), result["sha256"]
    return f"{result['path']}: recorded as deleted on {at}, SHA-256 {digest}"


def _list_kept_tasks(stage: Stage) -> Iterator[AttentionItem]:
    for one in stage.kept_tasks:
        how = describe_agreement(one["policy"], approver_of(one))
        text = _describe_kept(one, how)
        yield _build_item("kept tasks", stage, text)._replace(
            agreed=_describe_decision_approval(one)
        )


def describe_kept_tasks(stage: Stage) -> Iterator[str]:
    """Yield a message for each decision to keep finished tasks although their inputs changed."""
    for one in stage.kept_tasks:
        yield _describe_kept(one, describe_agreement(one["policy"], approver_of(one)))


def _describe_kept(one: Mapping[str, Any], how: str | None) -> str:
    kept = f"tasks finished by {one['attempt']} were kept although their inputs changed"
    return f"{kept}, {how or _NOBODY}"


def list_edit_decision_items(edits: Iterable[Mapping[str, Any]]) -> Iterator[AttentionItem]:
    """Yield an item for each manual edit that a person accepted or discarded."""
    for one in edits:
        how = describe_agreement(one["policy"], approver_of(one)) or _NOBODY
        text = f"a manual edit was discarded, {how}"
        if one["how"] == "adopted":
            text = "the part of a manual edit that the rules allow was adopted"
        yield AttentionItem("edit", one["file"], text, person=False)


def is_imported_as_completed(stage: Stage) -> bool:
    """Return whether a stage was imported as completed, without any attempt in the log."""
    return stage.status is Status.COMPLETED and stage.source is None


def describe_missing_outputs(gone: Sequence[str]) -> str:
    """Return a message that names the first missing outputs, and the number of further ones."""
    more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
    return f"outputs missing: {', '.join(gone[:_NAMED])}{more}"


def describe_decision(amendment: Amendment) -> str:
    """Return the status of an amendment, with the person who decided if known."""
    by = name_approver(amendment.approved_by, amendment.database_user)
    how = describe_agreement(amendment.policy, by) or (f"by {by}" if by else "")
    return f"{amendment.status} {how}".rstrip()


def group_decisions(state: Workflow) -> dict[str, list[str]]:
    """Return the decided amendments, grouped by the description of their decision."""
    found: dict[str, list[str]] = {}
    for one in state.amendments.values():
        if one.status != "proposed":
            found.setdefault(describe_decision(one), []).append(one.id)
    return found


def approver_of(decision: Mapping[str, Any]) -> str | None:
    """Return the name of the person who approved a decision on a stage or a file, or None."""
    return name_approver(decision["by"], decision.get("database_user"))


def describe_agreement(policy: str | None, by: str | None) -> str | None:
    """Return how a person approved, as text, such as ``signed by NAME``.

    Return None if no approval is recorded.
    """
    return None if by is None or policy not in _POLICIES else _POLICIES[policy].format(by=by)


def _describe_decision_approval(one: Mapping[str, Any]) -> str | None:
    """Return how a person approved, as text, or None if an agent decided.

    An agent can decide only under the consent policy ``trust``.
    """
    return describe_approval_by_person(one["policy"], approver_of(one))


def describe_approval_by_person(policy: str | None, by: str | None) -> str | None:
    """Return how a person approved under a policy, as text, or None if nobody did."""
    is_agent = policy == "trust" and by is not None and by.startswith("agent:")
    return None if is_agent else describe_agreement(policy, by)


def _failed_before(stage: Stage) -> Iterator[Attempt]:
    for attempt in stage.attempts:
        if attempt is stage.source:
            return
        if attempt.outcome == "failed" or attempt.is_refuted:
            yield attempt


def _find_earlier_verified_attempts(
    stage: Stage, agreed: Mapping[str, Mapping[str, Any]]
) -> Iterator[Attempt]:
    """Yield the earlier attempts whose results were verified, newest first.

    Stop after the first attempt whose environment a person has accepted.
    """
    earlier = itertools.takewhile(lambda one: one is not stage.source, stage.attempts)
    for attempt in reversed(list(earlier)):
        if attempt.results and not attempt.is_refuted:
            yield attempt
            if describe_item_acceptance(agreed.get(_environment_entry_id(attempt))) is not None:
                return


def _list_unapproved_changes_since(
    state: Workflow, stage: Stage, failed: Attempt, now: Attempt
) -> Iterator[AttentionItem]:
    """Yield an item for each change since a failed attempt that no person approved.

    Changes of scripts, inputs, added files, modules and the environment are compared.
    """

    for path in sorted(now.scripts.keys() | failed.scripts.keys()):
        old, new = failed.scripts.get(path), now.scripts.get(path)
        if old != new and not _is_file_version_approved(state, path, new, failed, now):
            yield _file_item("script", stage, now, path, new, _was_another(path, failed))
    for path, new in _find_changed_inputs(state, failed, now):
        yield _file_item("input", stage, now, path, new, _was_another(path, failed))
    yield from _list_added_file_items(state, stage, failed, now)
    yield from _other_modules(state, stage, failed, now)
    for line in compare_environments(now.environment, failed.environment, failed.id):
        if line.startswith(_INTERPRETER):
            yield _environment_item("environment", stage, now, f"{line}, which failed")


def _list_environment_items(
    stage: Stage, now: Attempt, agreed: Mapping[str, Mapping[str, Any]]
) -> Iterator[AttentionItem]:
    """Yield items for variables and programs that differ from those of earlier attempts.

    The current attempt is compared with failed and with completed attempts. If several completed
    attempts have the same differences, only the newest is named.
    """
    before = [(one, "failed") for one in _failed_before(stage)]
    named = set[tuple[str, ...]]()
    completed = ((one, "was completed") for one in _find_earlier_verified_attempts(stage, agreed))
    for one, how in itertools.chain(before, completed):
        names = find_changed_variables(now, one)
        programs = find_changed_programs(now, one)
        key = (*names, "", *programs)
        if how != "failed" and key in named:
            continue
        named |= {key} if how != "failed" else set()
        if names:
            text = f"another value than in {one.id}, which {how}: {', '.join(names)}"
            yield _environment_item("environment", stage, now, text)
        for path in programs:
            text = f"{path} was another program in {one.id}, which {how}"
            yield _environment_item("program", stage, now, text)


def find_changed_programs(now: Attempt, before: Attempt) -> list[str]:
    """Return the paths of programs whose content differs from that in an earlier attempt.

    Programs are matched by their file names.
    """
    here, there = ([*filter(None, (one.program, *one.programs))] for one in (now, before))
    earlier: dict[str, set[str]] = {}
    for one in there:
        earlier.setdefault(PurePosixPath(one["path"]).name, set()).add(one["sha256"])
    names = ((one, earlier.get(PurePosixPath(one["path"]).name)) for one in here)
    return [one["path"] for one, known in names if known and one["sha256"] not in known]


def find_changed_variables(now: Attempt, before: Attempt) -> list[str]:
    """Return the names of the variables whose values differ between two attempts.

    Variables of the interpreter with known values are omitted, because `compare_environments`
    already reports them.
    """
    if now.variables_key is None or now.variables_key != before.variables_key:
        return []
    environments = (now.environment or {}, before.environment or {})
    readable = {name for one in environments for name in one.get("values", {})}
    known = {name for name in readable if name.startswith(_INTERPRETER)}
    names = now.variables.keys() | before.variables.keys()
    differ = {one for one in names if now.variables.get(one) != before.variables.get(one)}
    return sorted(differ - known)


def _describe_changed_checks(
    state: Workflow, stage: Stage, now: Attempt
) -> Iterator[AttentionItem]:
    """Yield an item for each file of the check that changed after the attempt started.

    Changes that a person approved are omitted.
    """
    known = {**(now.beside or {}), **now.scripts}
    for path, sha256 in now.check_files.items():
        new = None if sha256 == MISSING else sha256
        if not _is_file_version_approved(state, path, new, now, None):
            text = f"{path} changed between the start of {now.id} and its check"
            if new is None:
                text = f"{path} existed at the start of {now.id} and was missing at its check"
            elif path not in known:
                text = f"{path} was missing at the start of {now.id} and existed at its check"
            kind = "script" if path in now.scripts else "module"
            yield _file_item(kind, stage, now, path, new, text)


def _list_added_file_items(
    state: Workflow, stage: Stage, failed: Attempt, now: Attempt
) -> Iterator[AttentionItem]:
    """Yield an item for each file in the stage's folder that only one attempt received.

    Files that the stage's definition names are omitted, because a person approved the definition.
    """
    made = {path for one in state.stages.values() for path in one.outputs}
    given = stage.parameters.get("forward_files")
    named = {*stage.inputs, *(f"{stage.id}/{one}" for one in given or ())}
    sent, earlier = ({one["path"]: one["sha256"] for one in it.inputs} for it in (now, failed))
    for path in sorted(sent.keys() ^ earlier.keys() if given is None else sent.keys() - earlier):
        known = path in made or path in named or path in {**now.scripts, **(now.beside or {})}
        if path.startswith(f"{stage.id}/") and not known and not failed.taken_over:
            what = "was sent to the job, and was not in" if path in sent else "was sent only in"
            text = f"{path} {what} {failed.id}, which failed"
            yield _file_item("input", stage, now, path, sent.get(path), text)


def _other_modules(
    state: Workflow, stage: Stage, failed: Attempt, now: Attempt
) -> Iterator[AttentionItem]:
    if failed.beside is None or now.beside is None:
        return
    here, there = _importable_modules(now), _importable_modules(failed)
    for path in sorted(here.keys() | there.keys()):
        if not _is_file_version_approved(state, path, here.get(path), failed, now):
            yield from _of_module(stage, path, now, failed)


def _importable_modules(attempt: Attempt) -> dict[str, str]:
    """Return the modules that an attempt or its check could import, with digests."""
    known = {**(attempt.beside or {}), **attempt.check_files}
    return {path: one for path, one in known.items() if path not in attempt.scripts}


def _of_module(stage: Stage, path: str, now: Attempt, failed: Attempt) -> Iterator[AttentionItem]:
    new, old = _importable_modules(now).get(path), _importable_modules(failed).get(path)
    if old is None:
        text = f"{path} {_LIES}, and did not exist in {failed.id}, which failed"
        yield _file_item("module", stage, now, path, new, text)
    elif new is not None and old != new:
        yield _file_item("module", stage, now, path, new, _was_another(path, failed))
    elif new is None and now.scripts == failed.scripts:
        # If the scripts have changed, they may no longer import the module, and the change of the
        # scripts is reported anyway.
        yield _file_item("module", stage, now, path, new, f"{path} is missing since {failed.id}")


def _find_changed_inputs(
    state: Workflow, failed: Attempt, now: Attempt
) -> Iterator[tuple[str, str | None]]:
    """Yield the inputs that differed in the failed attempt, with their current digests.

    Results of other stages and scripts are omitted.
    """
    made = {path for one in state.stages.values() for path in one.outputs}
    before = {one["path"]: one["sha256"] for one in failed.inputs}
    for one in now.inputs:
        path = one["path"]
        is_told = path not in made and path not in now.scripts  # a stage's result, or a script
        if is_told and before.get(path, one["sha256"]) != one["sha256"]:
            yield path, one["sha256"]


def _was_another(path: str, failed: Attempt) -> str:
    return f"{path} has changed since {failed.id}, which failed"


def _list_shadowing_files(stage: Stage, attempt: Attempt) -> Iterator[AttentionItem]:
    """Yield an item for each file that Python would import instead of its own modules.

    Files that Python imports automatically before any script are included.
    """
    for path, sha256 in (attempt.beside or {}).items():
        if module_of(path) in _OWN:
            text = f"{path} {_LIES}, and has the name of a module of Python's own"
            yield _file_item("module", stage, attempt, path, sha256, text)


def module_of(path: str) -> str:
    """Return the module name under which a script in the same folder imports a file."""
    file = PurePosixPath(path)
    return file.parent.name if file.name == "__init__.py" else file.name.partition(".")[0]


def _is_file_version_approved(
    state: Workflow, path: str, digest: str | None, earlier: Attempt, now: Attempt | None
) -> bool:
    """Return whether a person approved this file version since an attempt started.

    If ``now`` is given, the approval must be older than the start of this attempt.
    """
    return any(
        one.policy is not None
        and one.mandate is None
        and earlier.started_at < (one.decided_at or "")
        and (now is None or (one.decided_at or "") <= now.started_at)
        and one.scripts.get(path) == digest
        for one in state.amendments.values()
    )


def _build_item(kind: str, stage: Stage, text: str) -> AttentionItem:
    source = stage.source
    basis = [source.id, *(one["sha256"] for one in source.results)] if source is not None else []
    entry = compute_entry_id(kind, stage.id, text, basis)
    return AttentionItem(kind, stage.id, text, stage.id, person=False, entry=entry)


def _file_item(
    kind: str, stage: Stage, attempt: Attempt, path: str, sha256: str | None, text: str
) -> AttentionItem:
    """Return an item about a file that an attempt used."""
    entry, own = input_folder_entry_id(attempt, path), file_version_entry_id(path, sha256)
    return AttentionItem(kind, stage.id, text, stage.id, False, entry or own, file_entry=own)


def input_folder_entry_id(attempt: Attempt, path: str) -> str | None:
    """Return the id that all items on files in the same input folder of an attempt share.

    Return None if the file is not in an input folder.
    """
    folders = [one for one in attempt.inputs if path.startswith(f"{one['path']}/")]
    top = min(folders, key=lambda one: len(one["path"]), default=None)
    return None if top is None else file_version_entry_id(top["path"], top["sha256"])


def _environment_item(kind: str, stage: Stage, now: Attempt, text: str) -> AttentionItem:
    """Return an item about the environment of an attempt.

    All such items of an attempt have the same id, so that a person can accept them together.
    """
    entry = _environment_entry_id(now)
    return AttentionItem(kind, stage.id, text, stage.id, person=False, entry=entry)


def _environment_entry_id(attempt: Attempt) -> str:
    """Return the id that all items about the environment of an attempt share."""
    variables = (attempt.environment or {}).get("sha256"), sorted(attempt.variables.items())
    programs = [(attempt.program or {}).get("sha256")]
    programs += [one["sha256"] for one in attempt.programs]
    return compute_entry_id("environment", "", "", [*variables, *programs])


def file_version_entry_id(path: str, sha256: str | None) -> str:
    """Return the id that all audit items about this version of a file share."""
    return compute_entry_id("file", path, "", sha256)


def compute_entry_id(kind: str, subject: str, text: str, basis: object) -> str:
    """Return the id of an audit item, which a person uses to accept it.

    ``basis`` contains further data of the item as JSON values. A different text or basis results in
    a different id.
    """
    return sha256_hex(canonical_json([kind, subject, text, basis]))[:_ENTRY]


def add_acceptance_to_item(
    item: AttentionItem, agreed: Mapping[str, Mapping[str, Any]]
) -> AttentionItem:
    """Return the item with the acceptance by a person added, if there is one."""
    answers = (
        describe_item_acceptance(agreed.get(one or "")) for one in (item.entry, item.file_entry)
    )
    how = next((one for one in answers if one is not None), None)
    return item if how is None else item._replace(text=f"{item.text}; {how}", agreed=how)


def describe_item_acceptance(answer: Mapping[str, Any] | None) -> str | None:
    """Return a message about the person who accepted an audit item, and the reason.

    Return None if no person accepted it.
    """
    how = _describe_decision_approval(answer) if answer is not None else None
    return None if answer is None or how is None else f"agreed {how}: {answer['reason']}"


#: Number of hexadecimal digits in the id of an audit item (60 bits).
_ENTRY = 15
#: Environment variables that contain a list of folders separated by colons.
_FOLDER_LISTS = frozenset({"PATH", "PYTHONPATH", "LD_LIBRARY_PATH"})
#: Placeholder for the value of a variable that is set, but whose value is not in the log.
SET = "set"


def list_recorded_variables(environment: Mapping[str, Any]) -> dict[str, str]:
    """Return the recorded environment variables, and the path of python3.

    If the log does not contain the value of a variable, its value is `SET`.
    """
    found = dict.fromkeys(environment["names"], SET) | environment["values"]
    python = environment["python3"]
    return {**found, "python3": python} if python else found


def describe_code_version(code: Mapping[str, Any]) -> str:
    """Return the Git commit of an attempt's files, and the files with local changes."""
    commit, others = code["commit"], describe_uncommitted_files(code)
    return f"{commit}, but with local changes: {others}" if others else str(commit)


def describe_uncommitted_files(code: Mapping[str, Any]) -> str:
    """Return a message with the files of an attempt that differ from their Git commit, or ""."""
    return ", ".join(code["files"]) or ("other files of the repository" if code["dirty"] else "")


def compare_environments(
    now: Mapping[str, Any] | None, before: Mapping[str, Any] | None, attempt: str
) -> Iterator[str]:
    """Yield a line for each environment variable that differs from an earlier attempt.

    ``attempt`` is the id of the earlier attempt.
    """
    if now is None or before is None or now["sha256"] == before["sha256"]:
        return
    here, there = list_recorded_variables(now), list_recorded_variables(before)
    names = [
        name for name in sorted(here.keys() | there.keys()) if here.get(name) != there.get(name)
    ]
    for name in names:
        if name in _FOLDER_LISTS and name in here and name in there:
            yield from _compare_folder_lists(name, here[name], there[name], attempt)
        else:
            yield _describe_change(name, here.get(name), there.get(name), attempt)
    if not names:
        yield f"a variable has another value than in {attempt}; the log does not record its name"


def _compare_folder_lists(name: str, now: str, before: str, attempt: str) -> Iterator[str]:
    """Yield a line with the differences between two lists of folders, such as PATH.

    Repeated folders are not a difference, but another order is.
    """
    here, there = (list(dict.fromkeys(one.split(":"))) for one in (now, before))
    more = [f"has {folder or 'an empty entry'}" for folder in here if folder not in there]
    less = [f"lacks {folder or 'an empty entry'}" for folder in there if folder not in here]
    if more or less:
        yield f"{name} {', '.join([*more, *less])}, unlike in {attempt}"
    elif here != there:
        yield f"{name} has its folders in another order than in {attempt}"


def _describe_change(name: str, now: str | None, before: str | None, attempt: str) -> str:
    was = "was not set" if before is None else f"was {before}"
    if now is None:
        return f"{name} is not set; in {attempt} it {was}"
    return f"{name if now == SET else f'{name}={now}'} {was} in {attempt}"
