"""Register the extension ``protocol_check`` with the core of wfctl."""

from __future__ import annotations

from eventstore.verification import Finding
from service.reading.log import WorkflowLog
from wfctl_eventstore.extension import Extension


class ProtocolCheckExtension(Extension):
    """Check a log against the promises of the protocol, independently of the rules."""

    def check_protocol(self, log: WorkflowLog) -> list[Finding]:
        """Return a finding for the first event that breaks a promise of the protocol.

        The list is empty if no promise is broken.
        """
        from extensions.protocol_check.behaviour import first_breach

        found = first_breach((event.body, event.hash) for event in log.store.read(log.stream))
        if found is None:
            return []
        text = f"the event violates a rule of the protocol ({found.promise}): {found.message}"
        return [Finding(log.stream, found.version, None, "protocol", text)]


EXTENSION = ProtocolCheckExtension()
