"""How long the Prefect server keeps what has ended. What is open (locks, questions) is never removed, however old.

The engine's limits (cooldown, attempts, budget) count ended runs: their longest window (runbooks/core/policy.py) is shorter.
"""

from datetime import timedelta

KEPT = timedelta(days=90)
SERVER_ENV = {
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(int(KEPT.total_seconds())),
}
