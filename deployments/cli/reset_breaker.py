"""`gpu-runbooks reset-breaker`: see freeze.py."""

from deployments.cli.freeze import cmd_reset_breaker as cmd_reset_breaker
