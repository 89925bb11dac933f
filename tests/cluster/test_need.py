"""What a machine must have for these tests, and what happens where it has not."""

from __future__ import annotations

import pytest

from tests.cluster.support import NEEDED, need


@pytest.mark.parametrize(
    ("ci", "ends"), [(None, pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_what_is_missing_skips_a_test_but_fails_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str | None, ends: type[BaseException]
) -> None:
    """With a reason that names it."""
    monkeypatch.setitem(NEEDED, "slurm", ("slurmctld-that-nobody-has",))
    monkeypatch.setattr("os.geteuid", lambda: 0)
    if ci is None:
        monkeypatch.delenv("CI", raising=False)
    else:
        monkeypatch.setenv("CI", ci)
    with pytest.raises(ends, match="slurmctld-that-nobody-has not installed"):
        need("slurm")
