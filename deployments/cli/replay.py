"""`gpu-runbooks replay`: see list.py."""

from deployments.cli.list import cmd_replay as cmd_replay
