"""Run the loop as an Optuna study that retries the trials of killed processes."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import RDBStorage, RetryHeartbeatStaleTrialCallback
from optuna.trial import TrialState

from benchmarks.loops.point import EACH, ROUNDS, evaluate, note

WANTED = EACH * ROUNDS
again = RetryHeartbeatStaleTrialCallback()


def objective(trial: Any) -> float:
    """Compute the point of a trial; a retried trial uses the name of the first trial."""
    trial.set_user_attr("process", os.getpid())
    x = trial.suggest_int("x", 0, 100)
    return evaluate(x, f"trial {first(trial.study.trials[trial.number])}, x={x}")


def first(trial: Any) -> int:
    """Return the number of the trial, or for a retry, of the trial that was retried first."""
    retried = RetryHeartbeatStaleTrialCallback.retried_trial_number(trial)
    return int(trial.number if retried is None else retried)


def stale(study: Any, trial: Any) -> None:
    """Retry a trial without a heartbeat; record if this process was running it."""
    if trial.user_attrs.get("process") == os.getpid():
        note("failed-alive", str(trial.number))
    again(study, trial)


def main() -> None:
    """Continue the study until the required number of trials is completed."""
    storage = RDBStorage(
        "sqlite:///study.db",
        heartbeat_interval=1,
        grace_period=2,
        heartbeat_stale_trial_callback=stale,
    )
    study = optuna.create_study(storage=storage, study_name="loop", load_if_exists=True)
    enough = optuna.study.MaxTrialsCallback(WANTED, states=(TrialState.COMPLETE,))
    if len(study.get_trials(states=(TrialState.COMPLETE,))) < WANTED:
        study.optimize(objective, n_jobs=EACH, callbacks=[enough])
    tell(study.get_trials())


def tell(trials: list[Any]) -> None:
    """Write the requested points to a trace file, and the results of trials to `done`."""
    for trial in trials:
        if "x" in trial.params:
            note("asked", f"trial {first(trial)}, x={trial.params['x']}")
    states = Counter(trial.state.name for trial in trials)
    completed = Counter(first(trial) for trial in trials if trial.state == TrialState.COMPLETE)
    twice = sum(count > 1 for count in completed.values())
    retried = Counter(first(trial) for trial in trials)
    Path("done").write_text(f"{dict(states)}, {twice} completed twice, {dict(retried)}")


if __name__ == "__main__":
    main()
