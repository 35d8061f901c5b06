"""The orchestrator's database in a real PostgreSQL, as it was in 2025 or as it is in 2026."""

import re
from enum import StrEnum
from pathlib import Path

from tests.support.postgres import Postgres, run_script

ROLES = ("anon", "authenticated", "service_role")
READ_ONLY = frozenset({
    "count_eligible_tasks_service_role", "count_queued_tasks_breakdown_service_role", "analyze_task_availability_service_role",
    "per_user_capacity_stats_service_role", "func_get_tasks_by_status", "get_task_run_type", "all_dependencies_complete",
})  # fmt: skip
"""Functions of the database that change nothing."""


class Age(StrEnum):
    """Of the database's shape: both are in use."""

    OLD = "old"
    NEW = "new"


def make_roles(url: str) -> None:
    """The three roles of the REST interface; the service's may do everything in `public`, past row security."""
    lines = "".join(
        f"IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{r}') THEN CREATE ROLE {r} NOLOGIN{' BYPASSRLS' * (r == ROLES[2])}; END IF; "
        for r in ROLES
    )
    run_script(url, f"DO $$ BEGIN {lines} END $$; GRANT USAGE ON SCHEMA public TO {', '.join(ROLES)}")


def grant_all(url: str) -> None:
    """What exists by now is the service's to use."""
    grants = (f"GRANT ALL ON ALL {kind} IN SCHEMA public TO service_role" for kind in ("TABLES", "FUNCTIONS", "SEQUENCES"))
    run_script(url, "; ".join(grants))


def orchestrator_database(postgres: Postgres, age: Age, *, checked: bool = False) -> str:
    """A fresh database with its tables and functions; its address. `checked`: it refuses the states that only live code writes."""
    url = postgres.database(f"orchestrator_{age}{'_checked' * checked}")
    make_roles(url)
    text = Path(__file__).with_name("orchestrator.sql").read_text(encoding="utf-8")
    unwanted = {"old", "new", "checked"} - {str(age), "checked" if checked else ""}
    run_script(url, re.sub(rf"(?m)^.*-- ({'|'.join(sorted(unwanted))})\n", "", text))
    grant_all(url)
    return url
