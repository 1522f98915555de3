"""The guards of the engine, each taken away, and the tests that notice. docs/mutants.md is this module's output:

.venv/bin/python -m tests.faults.mutants > docs/mutants.md
"""

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One guard taken away, by the function of that name, and the tests of `WITNESSES` that notice."""

    name: str
    guard: str
    noticed_by: frozenset[str]


WITNESSES = {  # by what each claims
    "an old token": "tests/engine/test_leases.py::test_a_commit_under_an_old_token_changes_nothing",
    "a late answer": "tests/faults/test_races.py::test_a_worker_that_wakes_with_an_answer_after_another_has_finished_"
    "changes_nothing[write]",
    "a lost answer": "tests/engine/test_unknown_outcomes.py::test_a_server_fault_on_a_write_is_looked_up_first[True]",
    "a dead worker's call": "tests/faults/test_mutants.py::test_a_call_whose_worker_died_was_paid_for",
    "a quick worker": "tests/faults/test_mutants.py::test_a_wake_up_that_arrives_at_once_finds_its_run",
    "another amount": "tests/faults/test_mutants.py::test_what_was_sent_under_a_key_is_all_that_is_ever_sent_under_it",
    "no broker": "tests/engine/test_leases.py::test_the_sweeper_carries_runs_on_by_itself_while_the_broker_is_away",
    "a hung call": "tests/faults/test_mutants.py::test_a_call_that_hangs_holds_its_run_for_its_deadline_and_a_margin",
}
MUTANTS = (
    Mutant(
        "the_fence_is_gone",
        "every commit names the token and the owner",
        frozenset({"an old token", "a late answer"}),
    ),
    Mutant(
        "what_is_unknown_is_sent_again",
        "a write whose answer was lost is unknown, and looked up",
        frozenset({"a lost answer", "a late answer", "another amount"}),
    ),
    Mutant(
        "a_call_is_paid_for_afterwards",
        "a call's charge is reserved in its intent's commit",
        frozenset({"a dead worker's call", "a late answer"}),
    ),
    Mutant(
        "a_wake_up_goes_out_before_the_commit",
        "a wake-up is published once the commit is through",
        frozenset({"a quick worker"}),
    ),
    Mutant(
        "a_key_is_bound_to_nothing",
        "an operation key is bound to one operation, target and set of parameters",
        frozenset({"another amount"}),
    ),
    Mutant(
        "a_run_is_taken_over_by_time_alone",
        "a claim raises the token and makes a new owner",
        frozenset({"an old token"}),
    ),
    Mutant("nobody_sweeps", "what is due and was forgotten is found again", frozenset({"no broker"})),
    Mutant(
        "a_hung_call_keeps_its_run",
        "a lease ends with the deadline of the call that it covers, and a margin",
        frozenset({"a hung call"}),
    ),
)


def page() -> str:
    """docs/mutants.md."""
    head = ["guard taken away", *WITNESSES]
    lines = [
        [mutant.guard, *("fails" if witness in mutant.noticed_by else "" for witness in WITNESSES)]
        for mutant in MUTANTS
    ]
    table = "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *lines])
    named = "\n".join(f"| {name} | `{test}` |" for name, test in WITNESSES.items())
    return f"""# Whether the tests notice when a guard of the engine is gone

`python -m tests.faults.mutants` prints this page. `tests/faults/test_mutants.py` takes each guard away and plays the
tests that are said to fail; with `MUTANTS=all` also those of the empty cells, which must pass.

{table}

| called here | the test |
|---|---|
{named}
"""


if __name__ == "__main__":
    sys.stdout.write(page())
