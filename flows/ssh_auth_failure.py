"""The old name of flows.runbooks, for deployments that an earlier version registered. Goes with the next release."""

from flows.runbooks import ssh_auth_failure as ssh_auth_failure
