"""How often a stage may be retried, by the kind of its backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Retries, by the backend profile's ``type``. Source: the staged-workflow protocol, "Retry".
RETRY_LIMITS: Mapping[str, int] = {"local": 3, "remote": 5}

#: New computations for an attempt that was lost through no fault of the job.
RECOVERY_LIMIT = 1


def backend_type(profiles: Mapping[str, Any], name: str) -> str:
    """Return ``local`` or ``remote``; a profile that says nothing is local."""
    profile = profiles.get(name) or {}
    return str(profile.get("type", "local"))


def retry_limit(kind: str) -> int:
    """Return how many retries a backend of this kind allows."""
    return RETRY_LIMITS.get(kind, RETRY_LIMITS["local"])
