"""Ids and paths with arbitrary characters."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lifecycle.words.values import is_id, is_inside_base_folder, is_valid_report_path
from service.root.paths_within_root import OutsideRoot, resolve_below
from service.root.root import Config, config_text

NAMES = st.lists(st.sampled_from(["..", ".", "", "a", ".x", "b.md", "\n", "\0", "é", "~"]))
SPELT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(SPELT, SPELT)
def test_configuration_round_trip_preserves_any_text(workflow: str, url: str) -> None:
    """No character of an id or URL ends its string or starts another key."""
    read = tomllib.loads(config_text(Config(workflow, f"sqlite:///{url}")))
    assert read == {"workflow": workflow, "database_url": f"sqlite:///{url}"}


@given(NAMES)
def test_no_path_leads_out_of_the_root(steps: list[str]) -> None:
    """wfctl refuses a path of arbitrary parts, or resolves it to a place below the root."""
    path, root = "/".join(steps), Path("/nowhere/root")
    try:
        place = resolve_below(root, path)
    except OutsideRoot:
        assert not is_inside_base_folder(path)
    else:
        assert Path(place.absolute()).is_relative_to(root)
        assert place != root


@given(st.one_of(NAMES.map("/".join), st.text()))
def test_id_is_the_name_of_one_file(text: str) -> None:
    """An id contains no slash, and a report path is neither hidden nor outside the root."""
    assert not is_id(text) or (is_inside_base_folder(text) and "/" not in text and text.isascii())
    assert not is_valid_report_path(text) or (
        is_inside_base_folder(text) and not text.startswith(".")
    )
