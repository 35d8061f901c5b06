"""The ssh-auth-failure runbook as a Prefect flow."""

from flows.standard import standard_flow

ssh_auth_failure = standard_flow(
    "ssh-auth-failure",
    "Permission denied, refused, timed out: at which stage a log-in stops, and the one thing that is wrong.",
    "node name in the fleet file.",
)
