"""`gpu-runbooks replay`: judges the evidence of an old report with today's code; its code is in list.py."""

from deployments.cli.list import cmd_replay as cmd_replay
