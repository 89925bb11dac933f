"""The topics of ``wfctl help`` that belong to many commands."""

from __future__ import annotations

#: Topic → (what it is about, its text). The manual page has the same.
TOPICS: dict[str, tuple[str, str]] = {
    "exit-codes": (
        "what the number says with which a command ends",
        """\
0 done
1 failed
2 usage: the line is wrong; --help of the command says how it is right
3 not found: a stage, an amendment, a workflow
4 conflict: somebody was there first, or a key was used for something else
5 refused by the rules; the message says what is expected
6 needs a person's decision; the message names the command
7 findings: drift, tampering, differences, a check that failed
130 interrupted by Ctrl-C; 141 the reader of a pipe left""",
    ),
    "output": (
        "text, json, jsonl, csv, and how an answer is kept short",
        """\
-o json prints one envelope on stdout: success, data, next_actions, _meta; on one line
where no terminal is. -o jsonl prints bare records, a line each. audit and compare print csv.
--brief N of rehydrate, log, events, why and blame fits the answer into N tokens of four
bytes and leaves out what is empty. Talk goes to stderr; --log-level debug says all.""",
    ),
    "moments": (
        "how a moment of the history is named",
        """\
--at M shows what was so at M, --known-at M what was recorded by then. M is a version
(12), a time (2026-03-31T12:00+02:00), @{2 hours ago}, or the end of a session
(session:3). blame, diff, log and events take moments too.""",
    ),
    "actors": (
        "who acts, and what only a person may do",
        """\
--actor kind:name, else WFCTL_ACTOR, else user:LOGIN at a terminal and agent:unknown
elsewhere. Kinds: user, agent, reconciler, runner, import. Only a person approves an
amendment, trusts a server or a notification, or replaces a pin: others get exit 6.""",
    ),
    "amendments": (
        "how what a stage is may change",
        """\
Anyone proposes, a person decides. stage_rerun computes a stage once more, with --set
as the new values; parameter_change and criteria_change are what --set means without
a type; stage_insert adds one; stage_skip takes one out (--rewire: dependents go on).
plan_change is an edited plan as a whole, by `wfctl plan apply FILE`: one decision.
`wfctl amend propose --dry-run` says what it would cost before anybody is asked.""",
    ),
    "environment": (
        "variables that wfctl reads",
        """\
WFCTL_ACTOR who acts; WFCTL_DATABASE_URL where the log is; WFCTL_AGENT the program for
what has no command; WFCTL_NOTIFY whom to tell of decisions, failures and the end;
WFCTL_DPDISP the dpdisp program; WFCTL_DEBUG=1 tracebacks; NO_COLOR no colours.""",
    ),
}
