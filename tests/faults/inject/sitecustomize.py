"""Loaded at the start of every Python process of the fault harness (PYTHONPATH): the toy runbook and the faults."""

import os

if os.environ.get("TOY_WORLDS"):
    from tests.faults.fault import install_faults
    from tests.support import toy

    toy.install()
    install_faults()
