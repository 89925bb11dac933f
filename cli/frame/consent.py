"""Obtain a person's consent: at the terminal, with a signature, or without any proof."""

from __future__ import annotations

import os
import termios
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cli.agent_marks import calling_agent
from cli.frame.impact import format_question
from cli.terminal.output import print_message
from eventstore.event import Actor
from lifecycle.errors import NeedsConsent, NoAnswer
from service.consent import signature
from service.consent.proof import Policy, build_proof
from service.errors import InvalidOption, NotFound
from service.root.atomic_files import system_clock, utc_text
from service.writing.amendments import check_not_agent

_TERMINAL = "/dev/tty"
_TRIES = 3


class ConsentSubject(Protocol):
    """A subject to approve: a change of the plan, or a step of a phase machine.

    ``subject`` is its name. ``statement`` is the content to approve, as canonical JSON. ``state``
    contains the current consent policy. ``signers`` are the lines of the allowed-signers file.
    """

    @property
    def subject(self) -> str:
        """The name of the item to approve."""

    @property
    def statement(self) -> bytes:
        """The content that a person approves or signs, as canonical JSON."""

    @property
    def signers(self) -> list[str]:
        """The people who may sign approvals, as lines of an allowed-signers file."""

    @property
    def state(self) -> Policy:
        """The state that contains the current consent policy."""


@dataclass(frozen=True, slots=True)
class Wording:
    """The question to a person, and the commands that approve and show its subject."""

    told: Callable[[Any], str] = format_question
    approve: str = "wfctl amend approve"
    show: str = "wfctl amend show"


OF_AMENDMENTS = Wording()


@dataclass(frozen=True, slots=True)
class PersonConsent:
    """Asks a person for consent, as the consent policy of the workflow requires.

    The policy ``trust`` accepts every caller. With ``terminal``, a person reads the impact of the
    decision at the terminal and types y. With ``signature``, an allowed signer signs the statement
    with the SSH key ``key``, or has already signed it in the file ``made``. If nobody has approved
    the list of signers yet, a person must also type y at a terminal. If ``typed`` is set, a person
    has already agreed by typing this command, so wfctl does not ask for y.
    """

    policy: str
    actor: Actor
    key: Path | None = None
    made: Path | None = None
    wording: Wording = OF_AMENDMENTS
    typed: str | None = None

    def ask(self, question: ConsentSubject) -> bool:
        """Return whether the person agrees. Ask at the terminal if required.

        Raises `NeedsConsent` if consent is impossible, for example without a terminal or a signing
        key.
        """
        is_terminal = self.policy == "terminal"
        if self.policy == "trust" or (is_terminal and self.typed is not None):
            return True
        if not is_terminal and self.key is None and self.made is None:
            raise NeedsConsent(
                f"the decision on {question.subject} needs a signature. To sign with your key, "
                f"give --key FILE. Alternatively, sign the output of `{self.wording.show} "
                f"{question.subject} --statement` with `ssh-keygen -Y sign -n wfctl`, and give "
                "the result with --signature FILE.",
                amendment=question.subject,
            )
        text = self.wording.told(question)
        if not is_terminal and (self.typed is not None or not question.state.has_new_signers):
            # Print the question first, so that the person knows its content before ssh-keygen
            # requests a passphrase or a touch of the security key.
            print_message(text)
            return True
        if not is_terminal:
            text = "\n".join([text, *(f"May sign: {one}" for one in question.signers)])
        return ask_at_terminal(self.actor, question.subject, text, self.wording.approve)

    def prove(self, question: ConsentSubject) -> dict[str, Any] | None:
        """Return the proof of consent to record in the log, for example a signature."""
        by = f"{self.actor.kind}:{self.actor.name}"
        typed = {"typed": self.typed or "y", "on": _TERMINAL}
        if (agent := calling_agent()) is not None:  # the terminal belongs to an agent
            typed["within"] = agent
        if self.policy == "trust":
            return build_proof(question.statement, "trust", by=by)
        if self.policy == "terminal":
            return build_proof(question.statement, "terminal", by=by, **typed)
        signed, signers = self._read_signature(question), question.signers
        signer = signature.find_signer(signed, signers)
        if signer is None:
            raise NeedsConsent(
                f"the signature for {question.subject} was not made by an allowed signer. Sign "
                "with the key of an allowed signer: "
                f"{', '.join(line.split()[0] for line in signers)}.",
                amendment=question.subject,
            )
        now = utc_text(system_clock())
        if self.made and signature.explain_invalid_signature(
            question.statement, signed, signer, signers, now
        ):
            return None  # the signature is for another head, because the workflow has changed
        how = typed if question.state.has_new_signers else {}
        return build_proof(question.statement, "signature", signature=signed, signer=signer, **how)

    def _read_signature(self, question: ConsentSubject) -> str:
        if self.made is None and self.key is not None:
            return signature.sign(question.statement, self.key)
        try:
            return Path(str(self.made)).read_text("utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            raise NotFound(
                f"the signature file {self.made} does not exist or contains no signature. Name "
                "the signature file that ssh-keygen wrote."
            ) from None


def ask_at_terminal(actor: Actor, subject: str, text: str, command: str) -> bool:
    """Show a text at the terminal, and return whether the person types y.

    Raises `NeedsConsent` if the caller is an agent, or if the process has no terminal.
    """
    check_not_agent(actor, subject)
    try:
        terminal = os.open(_TERMINAL, os.O_RDWR | os.O_NOCTTY)
    except OSError as error:
        raise NeedsConsent(
            f"{subject} must be approved at a terminal, but this process has no terminal. A "
            f"person must run `{command}` at a terminal.",
            amendment=subject,
        ) from error
    try:
        return _read_answer(terminal, text)
    finally:
        os.close(terminal)


def _read_answer(terminal: int, text: str) -> bool:
    # Discard keys that were pressed before the impact was visible, so that they cannot approve it.
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
    raise NoAnswer(
        "the answer was neither y nor n, so nothing was changed. Run the command again, and "
        "answer y or n."
    )


def consenter_of(
    policy: str, actor: Actor, key: Path | None, made: Path | None, wording: Wording = OF_AMENDMENTS
) -> PersonConsent:
    """Return an object that asks a person for consent under the given policy.

    Raises `InvalidOption` if a key or signature is given for a policy without signatures.
    """
    if policy != "signature" and (key is not None or made is not None):
        raise InvalidOption(
            "the options --key and --signature can be used only with the consent policy "
            f"`signature`, but this workflow uses the policy `{policy}`. Remove these options."
        )
    known = policy if policy in ("signature", "terminal") else "trust"
    return PersonConsent(known, actor, key, made, wording)
