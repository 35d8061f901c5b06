"""`gpu-runbooks reject`: see approve.py."""

from deployments.cli.approve import cmd_reject as cmd_reject
