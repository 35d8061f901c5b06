"""`gpu-runbooks reject`: rejects the plan of a waiting run; its code is in approve.py."""

from deployments.cli.approve import cmd_reject as cmd_reject
