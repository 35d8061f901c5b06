"""`gpu-runbooks down`: waits for running actions, then stops what `up` started; its code is in up.py."""

from deployments.cli.up import cmd_down as cmd_down
