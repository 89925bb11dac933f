"""The official validator of RO-Crates, in a process of its own and without a network.

`python -m tests.exports.crate_judge FOLDER…` prints, for each crate, how many checks ran and every
issue with a requirement, as one JSON document.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import BaseAdapter
from rocrate_validator import services
from rocrate_validator.models import Severity, ValidationSettings
from rocrate_validator.utils.http import HttpRequester

VENDORED = Path(__file__).with_name("vendored")
CONTEXTS = {"https://w3id.org/ro/crate/1.1/context": VENDORED / "ro-crate-1.1-context.jsonld"}


class Served(BaseAdapter):
    """Answers from files; every other address is not found."""

    def send(self, request: PreparedRequest, *_: Any, **__: Any) -> Response:
        """Answer one request."""
        answer = Response()
        answer.request, answer.url = request, str(request.url)
        file = CONTEXTS.get(answer.url)
        answer.status_code = 404 if file is None else 200
        answer._content = b"" if file is None else file.read_bytes()
        answer.headers["Content-Type"] = "application/ld+json"
        return answer

    def close(self) -> None:
        """Do nothing: no connection is open."""


def judge(crate: str) -> dict[str, Any]:
    """Return what the validator says of a crate against Provenance Run Crate 0.5."""
    settings = ValidationSettings(
        rocrate_uri=crate,
        profile_identifier="provenance-run-crate",
        requirement_severity=Severity.REQUIRED,
        no_cache=True,
    )
    for scheme in ("https://", "http://"):
        HttpRequester().session.mount(scheme, Served())
    result = services.validate(settings)
    issues = [f"{issue.check.identifier}: {issue.message}" for issue in result.get_issues()]
    return {"checks": len(result.executed_checks), "issues": issues}


if __name__ == "__main__":
    json.dump([judge(crate) for crate in sys.argv[1:]], sys.stdout)
