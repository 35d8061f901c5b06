"""`gpu-runbooks nightly`: see run.py."""

from deployments.cli.run import cmd_nightly as cmd_nightly
