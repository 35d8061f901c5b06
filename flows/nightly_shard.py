"""The old name of flows.sweep.shard, for deployments that an earlier version registered. Goes with the next release."""

from flows.sweep.shard import nightly_shard as nightly_shard
