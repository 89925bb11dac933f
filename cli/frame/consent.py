"""How a person agrees: at the terminal, by a signature, or by being trusted."""

from __future__ import annotations

import os
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cli.frame.impact import told
from cli.terminal.output import say
from eventstore.event import Actor
from lifecycle.errors import NeedsConsent
from service.consent import signature
from service.consent.proof import Policy, proof_of
from service.errors import InvalidOption, NotFound
from service.root.disk import system_clock, utc_text
from service.writing.amendments import check_person

_TERMINAL = "/dev/tty"
_TRIES = 3


class ConsentSubject(Protocol):
    """What a person is asked: an amendment with its impact, or an approval of a machine."""

    @property
    def subject(self) -> str:
        """What is agreed to, by its name."""
        ...

    @property
    def statement(self) -> bytes:
        """What is agreed to, as canonical JSON."""
        ...

    @property
    def signers(self) -> list[str]:
        """Who may agree by a signature: lines of an allowed-signers file."""
        ...

    @property
    def state(self) -> Policy:
        """The policy in force."""
        ...


@dataclass(frozen=True, slots=True)
class Wording:
    """How the question is told to a person, and the commands that ask it and show it."""

    told: Callable[[Any], str] = told
    approve: str = "wfctl amend approve"
    show: str = "wfctl amend show"


OF_AMENDMENTS = Wording()


@dataclass(frozen=True, slots=True)
class Trusted:
    """Whoever calls is believed; the policy says so."""

    actor: Actor

    def ask(self, question: ConsentSubject) -> bool:  # noqa: ARG002 - one signature for every consenter
        """See Consenter."""
        return True

    def prove(self, question: ConsentSubject) -> dict[str, Any] | None:
        """See Consenter."""
        return proof_of(question.statement, "trust", by=f"{self.actor.kind}:{self.actor.name}")


@dataclass(frozen=True, slots=True)
class AtTerminal:
    """A person types the answer on the controlling terminal, after the impact was shown there."""

    actor: Actor
    wording: Wording = OF_AMENDMENTS
    #: The command that the person typed at a terminal, and agreed by; None: y is asked for.
    typed: str | None = None

    def ask(self, question: ConsentSubject) -> bool:
        """See Consenter."""
        return self.typed is not None or asked_at_terminal(
            self.actor, question.subject, self.wording.told(question), self.wording.approve
        )

    def prove(self, question: ConsentSubject) -> dict[str, Any] | None:
        """See Consenter."""
        who = f"{self.actor.kind}:{self.actor.name}"
        return proof_of(question.statement, "terminal", by=who, **_typed(self.typed))


def _typed(command: str | None) -> dict[str, str]:
    return {"typed": command or "y", "on": _TERMINAL}


def asked_at_terminal(actor: Actor, subject: str, text: str, command: str) -> bool:
    """Show a person the text on the controlling terminal, and return whether y was typed.

    Raises `NeedsConsent` for an agent, and where there is no terminal.
    """
    check_person(actor, subject)
    try:
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY)
    except OSError as error:
        raise NeedsConsent(
            f"{subject} is agreed to at a terminal and this process has none: "
            f"a person runs `{command}` in one.",
            amendment=subject,
        ) from error
    try:
        return _answer(terminal, text)
    finally:
        os.close(terminal)


def _answer(terminal: int, text: str) -> bool:
    # What was typed before the impact was shown is no answer to it.
    termios.tcflush(terminal, termios.TCIFLUSH)
    question = f"{text}\nApprove? [y/n: not now] "
    for _ in range(_TRIES):
        content = question.encode()
        while content:
            content = content[os.write(terminal, content) :]
        line = os.read(terminal, 4096)
        word = line.decode(errors="replace").strip().lower()
        if word in ("y", "yes"):
            return True
        if word in ("n", "no"):
            return False
        if not line:
            break
        question = "Approve? [y/n: not now] "
    raise NeedsConsent("neither y nor n was typed; nothing was decided.")


@dataclass(frozen=True, slots=True)
class SignedConsent:
    """An allowed signer's key signs the statement, now or beforehand.

    While nobody has agreed to the signers, a person says y at a terminal too.
    """

    actor: Actor
    key: Path | None = None
    made: Path | None = None
    wording: Wording = OF_AMENDMENTS
    #: As of `AtTerminal`.
    typed: str | None = None

    def ask(self, question: ConsentSubject) -> bool:
        """See Consenter."""
        if self.key is None and self.made is None:
            raise NeedsConsent(
                f"{question.subject} is agreed to by a signature: give --key FILE, or sign "
                f"what `{self.wording.show} {question.subject} --statement` prints "
                "(ssh-keygen -Y sign -n wfctl) and give --signature FILE.",
                amendment=question.subject,
            )
        if self.typed is None and question.state.has_new_signers:
            told = [self.wording.told(question), *(f"May sign: {one}" for one in question.signers)]
            return asked_at_terminal(
                self.actor, question.subject, "\n".join(told), self.wording.approve
            )
        # Before a passphrase, a touch or an agent is asked for.
        say(self.wording.told(question))
        return True

    def prove(self, question: ConsentSubject) -> dict[str, Any] | None:
        """See Consenter."""
        signed = self._signature(question)
        signer = signature.signer_of(signed, question.signers)
        if signer is None:
            raise NeedsConsent(
                f"{question.subject}: the signature is not by an allowed signer; they are "
                f"{', '.join(line.split()[0] for line in question.signers)}.",
                amendment=question.subject,
            )
        now = utc_text(system_clock())
        signers = question.signers
        if self.made and signature.objection(question.statement, signed, signer, signers, now):
            return None  # made for another head: the workflow moved on
        how = _typed(self.typed) if question.state.has_new_signers else {}
        return proof_of(question.statement, "signature", signature=signed, signer=signer, **how)

    def _signature(self, question: ConsentSubject) -> str:
        if self.made is None and self.key is not None:
            return signature.sign(question.statement, self.key)
        try:
            return Path(str(self.made)).read_text("utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            raise NotFound(
                f"no signature at {self.made}; expected the file of ssh-keygen"
            ) from None


def consenter_of(
    policy: str, actor: Actor, key: Path | None, made: Path | None, wording: Wording = OF_AMENDMENTS
) -> Trusted | AtTerminal | SignedConsent:
    """Return how a person agrees under the policy; raises `InvalidOption` for options it lacks."""
    if policy == "signature":
        return SignedConsent(actor, key, made, wording)
    if key is not None or made is not None:
        raise InvalidOption(
            f"consent is by {policy} here; --key and --signature are for the policy signature"
        )
    return AtTerminal(actor, wording) if policy == "terminal" else Trusted(actor)
