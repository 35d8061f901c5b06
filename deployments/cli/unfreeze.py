"""`gpu-runbooks unfreeze`: allows actions again; its code is in freeze.py."""

from deployments.cli.freeze import cmd_unfreeze as cmd_unfreeze
