"""`gpu-runbooks nightly`: diagnoses the whole fleet and writes one report; its code is in run.py."""

from deployments.cli.run import cmd_nightly as cmd_nightly
