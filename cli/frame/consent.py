"""How a person agrees: at the terminal, by a signature, or by being trusted."""

from __future__ import annotations

import os
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cli.agent_marks import calling_agent
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
    """What a person is asked: an amendment with its impact, or an approval of a machine.

    ``subject`` is its name, ``statement`` what is agreed to as canonical JSON, ``state`` holds the
    policy in force, and ``signers`` are lines of an allowed-signers file.
    """

    subject: str
    statement: bytes
    signers: list[str]
    state: Policy


@dataclass(frozen=True, slots=True)
class Wording:
    """How the question is told to a person, and the commands that ask it and show it."""

    told: Callable[[Any], str] = told
    approve: str = "wfctl amend approve"
    show: str = "wfctl amend show"


OF_AMENDMENTS = Wording()


@dataclass(frozen=True, slots=True)
class PersonConsent:
    """How a person agrees under a policy (see `Consenter`).

    ``trust``: every caller is believed. ``terminal``: a person types the answer on the controlling
    terminal, after the impact was shown there. ``signature``: an allowed signer's key signs the
    statement, now or beforehand (``made``); while nobody has agreed to the signers, a person says y
    at a terminal too. ``typed`` is the command that the person typed at a terminal, and agreed by;
    None: y is asked for.
    """

    policy: str
    actor: Actor
    key: Path | None = None
    made: Path | None = None
    wording: Wording = OF_AMENDMENTS
    typed: str | None = None

    def ask(self, question: ConsentSubject) -> bool:
        """See Consenter."""
        is_terminal = self.policy == "terminal"
        if self.policy == "trust" or (is_terminal and self.typed is not None):
            return True
        if not is_terminal and self.key is None and self.made is None:
            raise NeedsConsent(
                f"{question.subject} is agreed to by a signature: give --key FILE, or sign "
                f"what `{self.wording.show} {question.subject} --statement` prints "
                "(ssh-keygen -Y sign -n wfctl) and give --signature FILE.",
                amendment=question.subject,
            )
        text = self.wording.told(question)
        if not is_terminal and (self.typed is not None or not question.state.has_new_signers):
            # Before a passphrase, a touch or an agent is asked for.
            say(text)
            return True
        if not is_terminal:
            text = "\n".join([text, *(f"May sign: {one}" for one in question.signers)])
        return asked_at_terminal(self.actor, question.subject, text, self.wording.approve)

    def prove(self, question: ConsentSubject) -> dict[str, Any] | None:
        """See Consenter."""
        by = f"{self.actor.kind}:{self.actor.name}"
        typed = {"typed": self.typed or "y", "on": _TERMINAL}
        if (agent := calling_agent()) is not None:  # in whose terminal the person says to sit
            typed["within"] = agent
        if self.policy == "trust":
            return proof_of(question.statement, "trust", by=by)
        if self.policy == "terminal":
            return proof_of(question.statement, "terminal", by=by, **typed)
        signed, signers = self._signature(question), question.signers
        signer = signature.signer_of(signed, signers)
        if signer is None:
            raise NeedsConsent(
                f"{question.subject}: the signature is not by an allowed signer; they are "
                f"{', '.join(line.split()[0] for line in signers)}.",
                amendment=question.subject,
            )
        now = utc_text(system_clock())
        if self.made and signature.objection(question.statement, signed, signer, signers, now):
            return None  # made for another head: the workflow moved on
        how = typed if question.state.has_new_signers else {}
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


def asked_at_terminal(actor: Actor, subject: str, text: str, command: str) -> bool:
    """Return whether a person who reads the text at a terminal types y; raises `NeedsConsent`."""
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


def consenter_of(
    policy: str, actor: Actor, key: Path | None, made: Path | None, wording: Wording = OF_AMENDMENTS
) -> PersonConsent:
    """Return how a person agrees under the policy; raises `InvalidOption` for options it lacks."""
    if policy != "signature" and (key is not None or made is not None):
        raise InvalidOption(
            f"consent is by {policy} here; --key and --signature are for the policy signature"
        )
    known = policy if policy in ("signature", "terminal") else "trust"
    return PersonConsent(known, actor, key, made, wording)
