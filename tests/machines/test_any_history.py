"""After a random history of a machine, wfctl rebuilds lost files with the same content."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cli.frame.workspace import SCHEMA
from eventstore.event import Actor
from extensions.machines.rules import payload as p
from extensions.machines.rules.errors import MachineError
from extensions.machines.service.complete_command import SHIPPED
from extensions.machines.service.initialise import create_root_config
from extensions.machines.service.log import MachineLog
from extensions.machines.service.service import MachineService
from extensions.machines.views.documents import render_files
from lifecycle.payload.base import Payload
from service.reading.machine_streams import machine_folder
from service.root.atomic_files import system_instant
from service.root.root import Root
from tests.eventstore.memory import MemoryStore
from tests.machines.support import PROOF, definition

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text("abc é", max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("xyz", min_size=1), inner),
    max_leaves=5,
)


def update(path: str, value: Any) -> Payload:
    """Return the command that writes a field."""
    from lifecycle.words.document import record_key_order

    change = p.Change(path=path, value=value)
    return p.MachineUpdated(
        changes=[change], layout=record_key_order([change.model_dump(mode="json")])
    )


def commands(name: str) -> st.SearchStrategy[Payload]:
    """Return a hypothesis strategy for random commands on a machine of the given type."""
    known = definition(name)
    events = st.sampled_from(sorted(known.events))
    return st.one_of(
        st.builds(update, st.sampled_from(["brief", "artifacts.design", "name", "notes"]), VALUES),
        st.builds(update, st.just("track"), st.sampled_from(["thorough", "polish", "hotfix"])),
        st.builds(lambda to: p.MachineTransitioned(to=to), st.sampled_from(list(known.phases))),
        st.builds(lambda n: p.MachineRecorded(name=n), events),
        st.builds(lambda n: p.MachineRecorded(name=n, data={"notes": "why"}), events),
        st.builds(
            lambda s: p.MachineTaskChanged(task="task-001", changes={"status": s}),
            st.sampled_from(["pending", "running", "in_progress", "complete", "verified"]),
        ),
        st.builds(
            lambda a: p.MachineApproved(approval=a, proof=PROOF),
            st.sampled_from(sorted(known.approvals) or ["none"]),
        ),
        st.builds(lambda s: p.MachineCheckpointed(summary=s, next=[s]), st.text("ab", min_size=1)),
    )


def _require_kept_as_it_is(service: MachineService) -> None:
    """Check that a saved state can be loaded unchanged, and that a draft is independent of it."""
    state, rules = service.state(), service.log.rules
    content = rules.to_bytes(state)
    assert rules.from_bytes(content) == state
    assert rules.to_bytes(service.log.replayed()) == content
    draft = state.draft()
    draft.document["changed"] = []
    draft.visit.written.add(("changed",))
    for listed in (draft.moves, draft.given, draft.approvals, draft.notes):
        listed.clear()
    assert rules.to_bytes(state) == content


@pytest.mark.slow
@settings(max_examples=25)
@given(data=st.data(), name=st.sampled_from(SHIPPED))
def test_files_lost_after_any_history_are_rebuilt_unchanged(data: st.DataObject, name: str) -> None:
    """If all files of a machine are deleted, wfctl writes the same bytes again from the log."""
    with TemporaryDirectory() as folder:
        root = Root(Path(folder))
        create_root_config(root)
        store = MemoryStore(schema=SCHEMA, clock=system_instant)
        service = MachineService(root, MachineLog(store, "m-1", root.path), Actor("user", "ada"))
        service.handle(p.MachineCreated(machine="m-1", definition=definition(name).dumped()))
        for command in data.draw(st.lists(commands(name), max_size=12)):
            try:
                service.handle(command)
            except MachineError:
                continue
            _require_kept_as_it_is(service)
        written = {path: (root.path / path).read_bytes() for path in render_files(service.state())}
        for path in written:
            (root.path / path).unlink()
        (machine_folder(root) / "m-1.json").unlink()
        assert set(service.files.rebuild()) == set(written)
        assert {path: (root.path / path).read_bytes() for path in written} == written
        assert not list(store.verify())
