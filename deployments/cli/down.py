"""`gpu-runbooks down`: see up.py."""

from deployments.cli.up import cmd_down as cmd_down
