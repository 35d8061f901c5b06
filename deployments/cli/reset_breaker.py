"""`gpu-runbooks reset-breaker`: allows actions after the budget was used up; its code is in freeze.py."""

from deployments.cli.freeze import cmd_reset_breaker as cmd_reset_breaker
