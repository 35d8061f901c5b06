"""The stub driver for every test here."""

from tests.support.gpu_fixtures import built, driver

__all__ = ["built", "driver"]
