"""A verification's report, for people."""

from __future__ import annotations

from collections.abc import Iterator

from cli.terminal.output import Output
from reconciler.verification.verify import Verification


def lines(found: Verification, output: Output) -> Iterator[str]:
    """Yield a line for each check, its findings below it, and what it comes to."""
    width = max((len(check.name) for check in found.checks), default=0)
    for check in found.checks:
        mark = output.style("ok    ", "32") if check.passed else output.style("FAILED", "31")
        yield f"{mark}  {check.name:<{width}}  {check.detail}".rstrip()
        yield from (f"        {output.style(finding, '33')}" for finding in check.findings)
    failed = sum(not check.passed for check in found.checks)
    yield f"{len(found.checks)} checks, {failed or 'none'} failed"
