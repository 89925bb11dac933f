"""Find scripts whose content differs from the content that the log records."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from lifecycle.state.run_files import find_data_files_from_jobs
from lifecycle.state.status import Status
from lifecycle.state.workflow import Workflow
from projections.words.result_origin import (
    AttentionItem,
    file_version_entry_id,
    input_folder_entry_id,
)
from service.consent.scripts import find_changed_digests


def find_changed_scripts(root: Path, state: Workflow) -> Iterator[AttentionItem]:
    """Yield the scripts that changed since their approval, or since a completed attempt."""
    # A person who approves a change also approves the current scripts. Before the first approval,
    # the scripts at the creation of the workflow are valid.
    approved = any(one.version and one.record is None for one in state.amendments.values())
    when = "a person last approved a change" if approved else "the workflow was created"
    made = find_data_files_from_jobs(state)
    for one in _find_differences(root, state.scripts, when, made):
        yield _add_folder_entry(state, one)
    for stage in state.stages.values():
        if stage.source is not None and stage.status is Status.COMPLETED:
            when = f"{stage.id} {stage.source.id} started"
            agreed = made | {*state.scripts.items()}  # a person approved the file as it is now
            for one in _find_differences(root, stage.source.scripts, when, agreed, stage.id):
                yield _add_folder_entry(state, one)


def _add_folder_entry(state: Workflow, item: AttentionItem) -> AttentionItem:
    """Return the item, extended by the entry of the input folder with the script.

    The item is unchanged if no attempt read the script from a folder.
    """
    for stage in state.stages.values():
        if stage.source is not None:
            known = {**(stage.source.beside or {}), **stage.source.scripts}
            entry = input_folder_entry_id(stage.source, item.subject)
            if entry and item.file_entry == file_version_entry_id(
                item.subject, known.get(item.subject)
            ):
                return item._replace(entry=entry)
    return item


def _find_differences(
    root: Path,
    recorded: dict[str, str],
    when: str,
    made: AbstractSet[tuple[str, str | None]],
    stage: str | None = None,
) -> Iterator[AttentionItem]:
    """Yield each script whose content differs from its recorded digest or that is missing.

    Files that a job wrote are omitted; ``made`` contains their paths and digests.
    """
    for path, now in find_changed_digests(root, recorded).items():
        if (path, now) not in made:
            text = f"changed since {when}" if now else f"missing, but it existed when {when}"
            entry = file_version_entry_id(path, now)
            yield AttentionItem("script", path, text, stage, False, entry, file_entry=entry)
