"""How a person agrees: at the terminal, by a signature, or by being trusted."""

from __future__ import annotations

import os
import termios
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cli.impact import told
from eventstore.event import Actor
from lifecycle.errors import NeedsConsent
from service import signature
from service.amendments import Consenter, Question, check_person
from service.clock import system_clock, utc_text
from service.consent import proof_of
from service.errors import InvalidOption, NotFound

_TERMINAL = "/dev/tty"
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Trusted:
    """Whoever calls is believed; the policy says so."""

    actor: Actor

    def ask(self, question: Question) -> bool:  # noqa: ARG002 - one signature for every consenter
        """See Consenter."""
        return True

    def prove(self, question: Question) -> dict[str, Any] | None:
        """See Consenter."""
        return proof_of(question.statement, "trust", by=f"{self.actor.kind}:{self.actor.name}")


@dataclass(frozen=True, slots=True)
class AtTerminal:
    """A person types the answer on the controlling terminal, after the impact was shown there."""

    actor: Actor

    def ask(self, question: Question) -> bool:
        """See Consenter."""
        check_person(self.actor, question.amendment.id)
        try:
            terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY)
        except OSError as error:
            raise NeedsConsent(
                f"{question.amendment.id} is agreed to at a terminal and this process has none: "
                "a person runs `wfctl amend approve` in one.",
                amendment=question.amendment.id,
            ) from error
        try:
            return _answer(terminal, told(question))
        finally:
            os.close(terminal)

    def prove(self, question: Question) -> dict[str, Any] | None:
        """See Consenter."""
        who = f"{self.actor.kind}:{self.actor.name}"
        return proof_of(question.statement, "terminal", by=who, typed="y", on=_TERMINAL)


def _answer(terminal: int, text: str) -> bool:
    # What was typed before the impact was shown is no answer to it.
    termios.tcflush(terminal, termios.TCIFLUSH)
    question = f"{text}\nApprove? [y/n] "
    for _ in range(_TRIES):
        _write(terminal, question)
        line = os.read(terminal, 4096)
        word = line.decode(errors="replace").strip().lower()
        if word in ("y", "yes"):
            return True
        if word in ("n", "no"):
            return False
        if not line:
            break
        question = "Approve? [y/n] "
    raise NeedsConsent("neither y nor n was typed; the amendment stays proposed.")


def _write(terminal: int, text: str) -> None:
    content = text.encode()
    while content:
        content = content[os.write(terminal, content) :]


@dataclass(frozen=True, slots=True)
class Signed:
    """An allowed signer's key signs the statement, now or beforehand."""

    key: Path | None = None
    made: Path | None = None

    def ask(self, question: Question) -> bool:
        """See Consenter."""
        if self.key is None and self.made is None:
            raise NeedsConsent(
                f"{question.amendment.id} is agreed to by a signature: give --key FILE, or sign "
                f"what `wfctl amend show {question.amendment.id} --statement` prints "
                "(ssh-keygen -Y sign -n wfctl) and give --signature FILE.",
                amendment=question.amendment.id,
            )
        return True

    def prove(self, question: Question) -> dict[str, Any] | None:
        """See Consenter."""
        signed = self._signature(question)
        signer = signature.signer_of(signed, question.state.signers)
        if signer is None:
            raise NeedsConsent(
                f"{question.amendment.id}: the signature is not by an allowed signer; they are "
                f"{', '.join(line.split()[0] for line in question.state.signers)}.",
                amendment=question.amendment.id,
            )
        now = utc_text(system_clock())
        signers = question.state.signers
        if self.made and signature.objection(question.statement, signed, signer, signers, now):
            return None  # made for another head: the workflow moved on
        return proof_of(question.statement, "signature", signature=signed, signer=signer)

    def _signature(self, question: Question) -> str:
        if self.made is None and self.key is not None:
            return signature.sign(question.statement, self.key)
        try:
            return Path(str(self.made)).read_text("utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            raise NotFound(
                f"no signature at {self.made}; expected the file of ssh-keygen"
            ) from None


def consenter_of(policy: str, actor: Actor, key: Path | None, made: Path | None) -> Consenter:
    """Return how a person agrees under the policy; raises `InvalidOption` for options it lacks."""
    if policy == "signature":
        return Signed(key, made)
    if key is not None or made is not None:
        raise InvalidOption(
            f"consent is by {policy} here; --key and --signature are for the policy signature"
        )
    return AtTerminal(actor) if policy == "terminal" else Trusted(actor)
