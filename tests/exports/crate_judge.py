"""Run the official RO-Crate validator in a separate process without a network.

`python -m tests.exports.crate_judge FOLDER…` prints one JSON document with the number of checks and
the failed requirements of each crate.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import BaseAdapter
from rocrate_validator import services
from rocrate_validator.models import Severity, ValidationSettings
from rocrate_validator.utils.http import HttpRequester

VENDORED = Path(__file__).with_name("vendored")
CONTEXTS = {
    f"https://w3id.org/ro/crate/{version}/context": VENDORED / f"ro-crate-{version}-context.jsonld"
    for version in ("1.1", "1.3")
}
FILE = "ro-crate-metadata.json"
#: RO-Crate 1.1 has no term for a digest, so this is the term of workflow run crates.
DIGEST = {"sha256": "https://w3id.org/ro/terms/workflow-run#sha256"}
#: Current addresses, and the earlier addresses that the validator knows for workflow runs.
#: Only the addresses changed between these versions, and the terms of a crate stayed the same.
EARLIER = {
    "https://w3id.org/ro/crate/1.3": "https://w3id.org/ro/crate/1.1",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.1": (
        "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
    ),
    **{
        f"https://w3id.org/ro/wfrun/{name}/0.6": f"https://w3id.org/ro/wfrun/{name}/0.5"
        for name in ("process", "workflow", "provenance")
    },
}


class Served(BaseAdapter):
    """A transport adapter that answers requests from local files.

    It answers requests for other addresses with status 404.
    """

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
        """Do nothing, because no connection is open."""


def judge(crate: str) -> dict[str, Any]:
    """Validate a crate by RO-Crate 1.3 and by the profile of workflow runs.

    The validator has no profile of workflow runs for RO-Crate 1.3. For this profile, the crate is
    validated with the addresses of RO-Crate 1.1.
    """
    found = [judged(crate, "ro-crate-1.3")]
    with TemporaryDirectory() as folder:
        earlier = Path(folder) / "crate"
        shutil.copytree(crate, earlier)
        text = (earlier / FILE).read_text("utf-8")
        for now, before in EARLIER.items():
            text = text.replace(now, before)
        context = json.loads(text)["@context"]
        text = text.replace(json.dumps(context), json.dumps([context, DIGEST]), 1)
        (earlier / FILE).write_text(text, "utf-8")
        found.append(judged(str(earlier), "provenance-run-crate"))
    issues = [issue for one in found for issue in one["issues"]]
    return {"checks": sum(one["checks"] for one in found), "issues": issues}


def judged(crate: str, profile: str) -> dict[str, Any]:
    """Return the number of checks that ran for a profile, and the issues."""
    settings = ValidationSettings(
        rocrate_uri=crate,
        profile_identifier=profile,
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
