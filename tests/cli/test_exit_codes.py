"""Every error has an exit code of the contract, chosen and not left over."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

from cli.frame.failure import exit_code
from cli.frame.options import CONFLICT, FAILED, FINDINGS, NEEDS_PERSON, NOT_FOUND, REFUSED, USAGE
from eventstore import errors as log
from lifecycle import errors as rules
from lifecycle.machines import errors as machines
from reconciler import errors as jobs
from reconciler.control import dispatch
from reconciler.files import described, freshness
from reconciler.sweep import map_points as sweeps
from service import errors as use
from service.machines import errors as use_machines
from service.proofs import note as proofs

BASES = (rules.LifecycleError, log.EventStoreError, jobs.ReconcilerError, use.ServiceError)
MODULES = (rules, machines, use_machines, log, jobs, use, dispatch, described)

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
    use_machines.VersionConflict: CONFLICT,
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
    described.NoStageCommand: REFUSED,
    described.ScriptsChanged: NEEDS_PERSON,
    described.VerdictChanged: NEEDS_PERSON,
    described.TooMuchBeside: REFUSED,
    freshness.InputsChanged: NEEDS_PERSON,
    dispatch.NoDiagnosticRun: REFUSED,
    sweeps.ChangedMap: REFUSED,
    sweeps.UnfitMap: REFUSED,
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
    """Yield the errors that a module defines, their roots aside."""
    for _, found in inspect.getmembers(module, inspect.isclass):
        mine = found.__module__ == module.__name__
        if mine and issubclass(found, Exception) and found not in BASES:
            yield found


EVERY = [error for module in MODULES for error in errors_of(module)]


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_every_error_class_has_the_exit_code_that_was_chosen_for_it(kind: type[Exception]) -> None:
    """A new error fails here until somebody decides what its caller should see."""
    assert exit_code(kind.__new__(kind)) == CHOSEN[kind]


def test_the_codes_of_two_errors_are_never_the_same() -> None:
    """A program tells errors apart by ``code``, so no two trees may share one by accident."""
    shared = {
        "already_exists",  # one meaning, known to two rooms, as the next three
        "unknown_event_type",
        "unimportable_state",
        "root_busy",
        "GUARD_FAILED",  # a guard that lacks a person's approval alone is a guard all the same
    }
    codes = [error.code for error in EVERY if error.code not in shared]  # type: ignore[attr-defined]
    assert sorted(codes) == sorted(set(codes))


def test_what_nobody_foresaw_is_a_failure() -> None:
    """A bug is exit 1, never a success and never a code with a meaning."""
    assert exit_code(RuntimeError()) == FAILED
    found = [kind for kind, code in CHOSEN.items() if code == FINDINGS]
    about_proofs = [kind for kind in found if issubclass(kind, use.ServiceError)]
    rest = [kind for kind in found if kind not in about_proofs]
    unknown = [log.UnknownStoredType, log.NewerEventSchema]
    assert rest == [*unknown, log.UnsoundLog, log.ForeignRule]  # findings about the log itself
