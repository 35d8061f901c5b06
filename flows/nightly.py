"""The old name of flows.sweep.nightly, for deployments that an earlier version registered. Goes with the next release."""

from flows.sweep.nightly import nightly as nightly
from flows.sweep.nightly import sweep as sweep
