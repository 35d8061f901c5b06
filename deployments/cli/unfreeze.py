"""`gpu-runbooks unfreeze`: see freeze.py."""

from deployments.cli.freeze import cmd_unfreeze as cmd_unfreeze
