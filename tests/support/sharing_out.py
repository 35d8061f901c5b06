"""Which tests share a process of `pytest -n`: those of a file, which share its servers; and what takes longest begins first.

By a scheduler of our own: pytest 9 no longer lets xdist's groups into test ids, so its marks do nothing.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

_ROOM = "tests/tasks/rendezvous/test_"
_TORCHRUN = ("torchrun_v2", "torchrun_others", "old_agent", "etcd_access", "etcd_acts", "etcd_own_races", "attacks")
_AGENTS = ("tests/incidents/test_places_etcd.py", "tests/incidents/test_places_rendezvous.py")
_JUDGED = ("core/test_covers", "core/test_unmark", "deployments/test_display", "flows/test_dead_readers", "runbooks/test_form_examples",
           "runbooks/test_mildest", "runbooks/test_raw_bytes", "runbooks/test_together", "runbooks/test_unexplained")  # fmt: skip
TOGETHER = {
    **dict.fromkeys(["tests/flows/test_rendezvous.py", *_AGENTS, *(f"{_ROOM}{name}.py" for name in _TORCHRUN)], "torchrun"),
    **dict.fromkeys([f"tests/{name}.py" for name in _JUDGED], "judged"),
}
"""Files whose tests see each other's torchrun processes: one at a time on a machine. Files that judge every situation: once."""
LONGEST_FIRST = (
    "tests/flows/test_rendezvous",
    "tests/test_pages_run",
    "tests/deployments/test_lab_broken_off",
    "tests/tasks/rendezvous/test_torchrun",
    "tests/tasks/rendezvous/test_old_agent",
    "tests/deployments/test_end_to_end",
    "tests/deployments/test_question",
    "tests/corpus/",
    "tests/tasks/ray/",
    "tests/watch/",
    "tests/faults/",
    "tests/flows/",
    "tests/spawning/",
    "tests/gateway/",
    "tests/notify/",
    "tests/deployments/",
    "tests/tasks/",
)
PROVED = (
    "tests/faults/",
    "tests/flows/test_rendezvous",
    "tests/gateway/test_storms",
    "tests/spawning/",
    "tests/tasks/container/test_systemd_host",
    "tests/watch/",
)
"""The fault harness: `make prove` runs it and keeps the score; `make test` runs the rest."""
LONG = (
    "tests/core/test_covers",
    "tests/core/test_unmark",
    "tests/core/test_words",
    "tests/corpus/test_floors",
    "tests/deployments/test_colours",
    "tests/deployments/test_end_to_end",
    "tests/deployments/test_fuzz_commands",
    "tests/deployments/test_fuzz_files",
    "tests/deployments/test_fuzz_online",
    "tests/deployments/test_hostile_key",
    "tests/deployments/test_lab_broken_off",
    "tests/deployments/test_new_runbook.py::test_nothing_is_overwritten",
    "tests/deployments/test_new_runbook.py::test_the_recipe",
    "tests/deployments/test_new_runbook.py::test_the_situations_fail",
    "tests/deployments/test_online_terminal",
    "tests/deployments/test_own_faults.py::test_a_nightly",
    "tests/deployments/test_own_faults.py::test_a_run[",
    "tests/deployments/test_question",
    "tests/deployments/test_registration.py::test_registering_again",
    "tests/deployments/test_server_away",
    "tests/deployments/test_signals",
    "tests/deployments/test_ui",
    "tests/flows/test_clean_ends.py::test_no_secret_of_an_error",
    "tests/flows/test_created_folder",
    "tests/flows/test_engine.py::test_a_resume_in_the_ui",
    "tests/flows/test_engine.py::test_budget_trips",
    "tests/flows/test_knowingly",
    "tests/flows/test_log_once.py::test_a_workers_run",
    "tests/flows/test_nightly_parts.py::test_a_worker_reads",
    "tests/flows/test_nightly_parts.py::test_nightly_in_shards",
    "tests/flows/test_nightly_shut",
    "tests/flows/test_one_look.py::test_the_same_words_on_all_paths[the link is cut",
    "tests/flows/test_preflight",
    "tests/gateway/test_events",
    "tests/gateway/test_prometheus",
    "tests/incidents/",
    "tests/notify/test_approve_browser",
    "tests/notify/test_approve_link.py::test_a_destructive_plan",
    "tests/notify/test_approve_link.py::test_a_plan_that_changed",
    "tests/notify/test_links_land",
    "tests/notify/test_secret_scan",
    "tests/runbooks/rendezvous/test_schedules",
    "tests/runbooks/test_confirmed",
    "tests/runbooks/test_consistent",
    "tests/runbooks/test_default_branch",
    "tests/runbooks/test_excluded",
    "tests/runbooks/test_forbidden",
    "tests/runbooks/test_headlines",
    "tests/runbooks/test_never_raises",
    "tests/runbooks/test_own_places",
    "tests/runbooks/test_raw_answers",
    "tests/runbooks/test_redact_own",
    "tests/runbooks/test_sentences",
    "tests/runbooks/test_unexplained",
    "tests/runbooks/test_unread",
    "tests/runbooks/triage/test_no_last_word",
    "tests/scorecard/test_audit",
    "tests/tasks/checkpoint/test_attacks",
    "tests/tasks/checkpoint/test_damage_matrix",
    "tests/tasks/checkpoint/test_hostile",
    "tests/tasks/checkpoint/test_killed_",
    "tests/tasks/checkpoint/test_load",
    "tests/tasks/checkpoint/test_outages",
    "tests/tasks/checkpoint/test_printed",
    "tests/tasks/checkpoint/test_races",
    "tests/tasks/container/test_fuse_and_daemon",
    "tests/tasks/container/test_printed",
    "tests/tasks/container/test_recreate",
    "tests/tasks/container/test_remount_races",
    "tests/tasks/gpu/test_printed",
    "tests/tasks/ray/test_going_on",
    "tests/tasks/orchestrator/test_fleet",
    "tests/tasks/ray/test_printed",
    "tests/tasks/ray/test_real_ray",
    "tests/tasks/rendezvous/test_attacks",
    "tests/tasks/rendezvous/test_etcd_acts",
    "tests/tasks/rendezvous/test_printed",
    "tests/tasks/rendezvous/test_torchrun_others.py::test_the_old_backend",
    "tests/tasks/rendezvous/test_torchrun_v2",
    "tests/tasks/spawning/test_pod_races",
    "tests/tasks/spawning/test_printed",
    "tests/tasks/ssh/test_printed",
    "tests/test_pages_run",
    "tests/test_printed",
    "tests/test_recipes.py::test_a_",
    "tests/test_recipes.py::test_an_action",
    "tests/test_recipes.py::test_the_tests",
)
"""Proofs that try everything of a kind (every option, reading lost, incident), and slow ones on whole systems: `make long` runs them."""
MARKED = {"prove": PROVED, "long": LONG}


def for_another_run(file: str, marks: str) -> bool:
    """True if no test of this file (its path from the root) can be among those that the expression of marks asks for."""
    terms = marks.split(" and ") if " or " not in marks and "(" not in marks else []
    for mark, starts in MARKED.items():
        if f"not {mark}" in terms and file.startswith(tuple(s for s in starts if "::" not in s)):
            return True
        if mark in terms and not file.startswith(tuple(s.split("::")[0] for s in starts)):
            return True
    return False


MEASURED_LAST = "tests/deployments/test_cli_quick"  # processor time of short commands: when little else runs


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """One file, one process; some files together."""

    def __init__(self, config: pytest.Config, log: Producer | None = None) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.split("::", 1)[0]
        return TOGETHER.get(path, path)


def rank(nodeid: str) -> int:
    """Place in the order of beginning."""
    if nodeid.startswith(MEASURED_LAST):
        return len(LONGEST_FIRST) + 1
    return next((i for i, start in enumerate(LONGEST_FIRST) if nodeid.startswith(start)), len(LONGEST_FIRST))
