"""One Prefect server for all tests of a test process that need one."""

from tests.support.rig_fixture import rig

__all__ = ["rig"]
