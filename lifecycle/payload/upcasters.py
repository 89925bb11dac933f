"""What lifts the data of older events by one schema version when it is read."""

from __future__ import annotations

from typing import Any


def checks_with_findings(data: dict[str, Any]) -> dict[str, Any]:
    """Give each check the list of its findings; in the first version it had none."""
    checks = [{"findings": [], **check} for check in data.get("checks", [])]
    return {**data, "checks": checks}


def failure_with_category(data: dict[str, Any]) -> dict[str, Any]:
    """Give a failure the place of its diagnosis; at first nobody wrote one, or ended an attempt."""
    new: dict[str, Any] = {"category": None, "because": None, "stop": False, "outputs": []}
    return {**new, **checks_with_findings(data)}
