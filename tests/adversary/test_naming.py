"""Ids and paths as anybody may spell them."""

from __future__ import annotations

import tomllib
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lifecycle.words.values import is_below, is_id, is_report
from service.root.disk import OutsideRoot, below
from service.root.root import Config, config_text

NAMES = st.lists(st.sampled_from(["..", ".", "", "a", ".x", "b.md", "\n", "\0", "é", "~"]))
SPELT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(SPELT, SPELT)
def test_a_configuration_reads_back_as_it_was_meant(workflow: str, url: str) -> None:
    """No character of an id or an address ends its text, or begins another key."""
    read = tomllib.loads(config_text(Config(workflow, f"sqlite:///{url}")))
    assert read == {"workflow": workflow, "database_url": f"sqlite:///{url}"}


@given(NAMES)
def test_no_path_leads_out_of_the_root(steps: list[str]) -> None:
    """Whatever it is made of, it is refused or stays below."""
    path, root = "/".join(steps), Path("/nowhere/root")
    try:
        place = below(root, path)
    except OutsideRoot:
        assert not is_below(path)
    else:
        assert Path(place.absolute()).is_relative_to(root)
        assert place != root


@given(st.one_of(NAMES.map("/".join), st.text()))
def test_an_id_is_the_name_of_one_file(text: str) -> None:
    """And a report is a text that nothing runs."""
    assert not is_id(text) or (is_below(text) and "/" not in text and text.isascii())
    assert not is_report(text) or (is_below(text) and not text.startswith("."))
