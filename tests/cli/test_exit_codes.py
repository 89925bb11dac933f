"""Every error class has an explicitly chosen exit code."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

from cli.frame.exit_codes import CONFLICT, FAILED, FINDINGS, NEEDS_PERSON, NOT_FOUND, REFUSED, USAGE
from cli.frame.failure import exit_code
from eventstore import errors as log
from extensions.machines.rules import errors as machines
from extensions.machines.service import errors as use_machines
from extensions.proofs import errors as proofs
from lifecycle import errors as rules
from reconciler import errors as jobs
from reconciler.control import dispatch
from reconciler.files import described_submission, freshness, script_consent
from reconciler.sweep import map_points as sweeps
from service import errors as use
from wfctl_eventstore import extension

BASES = (rules.LifecycleError, log.EventStoreError, jobs.ReconcilerError, use.ServiceError)
CHECKS = (dispatch, described_submission, script_consent)
MODULES = (rules, machines, use_machines, log, jobs, use, *CHECKS, extension)

CHOSEN: dict[type[Exception], int] = {
    machines.MachineError: REFUSED,
    machines.InvalidDefinition: FAILED,
    machines.InvalidInput: USAGE,
    machines.UnsafeResume: NEEDS_PERSON,
    machines.ReservedField: REFUSED,
    machines.InvalidTransition: REFUSED,
    machines.GuardFailed: REFUSED,
    machines.ApprovalMissing: NEEDS_PERSON,
    machines.CircuitOpen: NEEDS_PERSON,
    machines.AlreadyCancelled: REFUSED,
    machines.StateNotFound: NOT_FOUND,
    machines.StateAlreadyExists: CONFLICT,
    machines.TaskHeld: CONFLICT,
    use_machines.UnimportableMachine: FAILED,
    use_machines.LockHeld: FAILED,
    use_machines.LockLost: FAILED,
    rules.InvalidPlan: FAILED,
    rules.InvalidPayload: USAGE,
    rules.UnknownEventType: USAGE,
    rules.UnknownStage: NOT_FOUND,
    rules.UnknownAmendment: NOT_FOUND,
    rules.InvalidAmendment: REFUSED,
    rules.StaleAmendment: CONFLICT,
    rules.ImpactChanged: CONFLICT,
    rules.AmendmentDecided: REFUSED,
    rules.Refused: REFUSED,
    rules.IllegalTransition: REFUSED,
    rules.DependenciesNotMet: REFUSED,
    rules.AttemptMismatch: REFUSED,
    rules.RetryLimitReached: REFUSED,
    rules.NothingToBuildFrom: REFUSED,
    rules.AlreadyExists: CONFLICT,
    rules.NoWorkflow: NOT_FOUND,
    rules.MissingEvidence: REFUSED,
    rules.NoCommand: REFUSED,
    rules.NotFinished: REFUSED,
    rules.BudgetLeft: REFUSED,
    rules.NothingHinders: REFUSED,
    rules.NothingLeft: REFUSED,
    rules.OutsideEnvelope: REFUSED,
    rules.UnknownLoop: NOT_FOUND,
    rules.NeedsConsent: NEEDS_PERSON,
    rules.NoAnswer: NEEDS_PERSON,
    described_submission.NoStageCommand: REFUSED,
    script_consent.ScriptsChanged: NEEDS_PERSON,
    script_consent.ScriptsUnknown: NEEDS_PERSON,
    extension.MissingExtensionError: NOT_FOUND,
    script_consent.VerdictChanged: NEEDS_PERSON,
    described_submission.TooMuchBeside: REFUSED,
    freshness.InputsChanged: NEEDS_PERSON,
    dispatch.NoDiagnosticRun: REFUSED,
    sweeps.ChangedMap: REFUSED,
    sweeps.UnfitMap: REFUSED,
    use.VersionConflict: CONFLICT,
    use.NoRoot: NOT_FOUND,
    use.RootExists: CONFLICT,
    use.WorkflowExists: CONFLICT,
    use.AlreadyThere: CONFLICT,
    log.TransferConflict: CONFLICT,
    use.UnreadablePlan: FAILED,
    use.UnimportableState: FAILED,
    use.NotFound: NOT_FOUND,
    use.InvalidOption: USAGE,
    use.SqlWrong: USAGE,
    use.SqlRefused: REFUSED,
    use.SqlTooLong: FAILED,
    use.RootElsewhere: NEEDS_PERSON,
    use.FilesBehind: FAILED,
    use.LogBehind: FINDINGS,
    use.RootBusy: FAILED,
    proofs.UnreadableNote: FAILED,
    proofs.UnverifiedNote: FINDINGS,
    proofs.CheckpointDenied: FINDINGS,
    proofs.ProofRejected: FINDINGS,
    proofs.NotWitnessed: FINDINGS,
    log.WrongExpectedVersion: CONFLICT,
    log.CommandConflict: CONFLICT,
    log.EventIdReused: FAILED,
    log.InvalidData: USAGE,
    log.SchemaError: FAILED,
    log.UnknownStoredType: FINDINGS,
    log.NewerEventSchema: FINDINGS,
    log.OlderEventSchema: FAILED,
    log.MissingUpcaster: FAILED,
    log.DatabaseError: FAILED,
    log.DatabaseMissing: NOT_FOUND,
    log.NotOurs: FAILED,
    log.NewerDatabase: FAILED,
    log.OlderDatabase: FAILED,
    log.StoreDamaged: FAILED,
    log.DamagedEvent: FAILED,
    log.UnsoundLog: FINDINGS,
    log.StoreBusy: FAILED,
    log.StoreUnwritable: FAILED,
    log.LocksUnreliable: FAILED,
    log.StoreClosed: FAILED,
    log.ForeignRule: FINDINGS,
    log.StoreUnreachable: FAILED,
    log.DriverMissing: FAILED,
    jobs.InvalidSubmission: FAILED,
    jobs.UnusableName: FAILED,
    jobs.DamagedAttempt: FAILED,
    jobs.UnusableSubmission: FAILED,
    jobs.InlineSecret: REFUSED,
    jobs.MachineFileMissing: REFUSED,
    jobs.MachineUnreachable: FAILED,
    jobs.MachineRefused: FAILED,
    jobs.UnusableProfile: FAILED,
    jobs.UnusablePath: FAILED,
    jobs.LinkedStageFolder: FAILED,
    jobs.RejectedSubmission: FAILED,
    jobs.MissingInput: FAILED,
    jobs.EmptyInput: FAILED,
    jobs.UnusableLink: FAILED,
    jobs.ProgramMissing: FAILED,
    jobs.AgentMissing: FAILED,
    jobs.AgentNotStarted: FAILED,
    jobs.AlreadyAutonomous: CONFLICT,
    jobs.NoRunner: NOT_FOUND,
    jobs.RunnerFailed: FAILED,
    jobs.AlreadyDriven: CONFLICT,
    jobs.EnvironmentNotReady: FAILED,
    jobs.AlreadyMonitored: FAILED,
    jobs.LaunchFailed: FAILED,
}


def errors_of(module: ModuleType) -> Iterator[type[Exception]]:
    """Yield the error classes that a module defines, without base classes."""
    for _, found in inspect.getmembers(module, inspect.isclass):
        mine = found.__module__ == module.__name__
        if mine and issubclass(found, Exception) and found not in BASES:
            yield found


EVERY = [error for module in MODULES for error in errors_of(module)]


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_error_class_has_its_chosen_exit_code(kind: type[Exception]) -> None:
    """Each error class is in the table with its exit code, so a new class needs an entry."""
    assert exit_code(kind.__new__(kind)) == CHOSEN[kind]


def test_error_codes_are_unique() -> None:
    """Two error classes do not share a ``code``, except for a few listed codes."""
    shared = {
        "already_exists",  # same meaning in two packages, as the next three codes
        "unknown_event_type",
        "unimportable_state",
        "root_busy",
        "GUARD_FAILED",  # a guard that only lacks the approval of a person is still a guard
    }
    codes = [error.code for error in EVERY if error.code not in shared]  # type: ignore[attr-defined]
    assert sorted(codes) == sorted(set(codes))


def test_unexpected_error_exits_with_code_1() -> None:
    """An internal error exits with code 1, because other codes have a documented meaning."""
    assert exit_code(RuntimeError()) == FAILED
    found = [kind for kind, code in CHOSEN.items() if code == FINDINGS]
    about_proofs = [kind for kind in found if issubclass(kind, use.ServiceError)]
    rest = [kind for kind in found if kind not in about_proofs]
    unknown = [log.UnknownStoredType, log.NewerEventSchema]
    assert rest == [*unknown, log.UnsoundLog, log.ForeignRule]  # findings about the log itself
