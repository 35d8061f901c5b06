"""The doctor's look at telling people and approver codes. Reads only; sends nothing."""

import os
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from runbooks.core.config import ConfigError

if TYPE_CHECKING:
    from deployments.doctor.check import Check
WEEK = timedelta(days=7)


def check_people(ns: Namespace) -> "Iterator[Check]":
    """notifications.yaml, its channels, the link key, approver codes, and messages that were not told."""
    answers = bool(ns.server_answers)  # channels may be named by Secret blocks
    yield from _notifications(answers)
    yield from _approvers(ns)
    if answers:
        yield from _failed_messages()


def _notifications(server: bool) -> "Iterator[Check]":
    from deployments.doctor.check import Check
    from flows.notify.notify_file import load_notifications, notifications_file
    from tasks.notify.address import NoAddress, read_address
    from tasks.notify.keys import NoKey, link_key

    try:
        config = load_notifications()
    except ConfigError as e:
        yield Check("notifications", "FAULT", str(e), "correct the file; gpu-runbooks notify check")
        return
    if config is None:
        yield Check("notifications", "note", "no notifications.yaml: no one is notified")
        return
    yield Check("notifications", "ok", f"{notifications_file()}; gpu-runbooks notify test sends a message")
    for name, channel in config.channels.items():
        if channel.url.secret and not server:
            yield Check("channel", "note", f"{name}: {channel.url.words} is on the Prefect server, which does not answer")
            continue
        try:
            read_address(channel.url)
            yield Check("channel", "ok", f"{name}: {channel.url.words} is set")
        except NoAddress as e:
            yield Check("channel", "FAULT", f"{name}: {e}", "set it where worker and reaper run, then gpu-runbooks up")
    if config.links.gateway:
        try:
            link_key()
            yield Check("link key", "ok", "there; gateway and workers on other machines need GPU_RUNBOOKS_LINK_KEY")
        except NoKey as e:
            yield Check("link key", "FAULT", str(e))


def _approvers(ns: Namespace) -> "Iterator[Check]":
    from deployments.doctor.check import Check
    from flows.config import load_policy
    from tasks.approvers.secrets import NoSecrets, approvers_file, read_approvers

    try:
        named = load_policy(ns.policy or os.environ.get("GPU_RUNBOOKS_POLICY")).approvers
        known = read_approvers()
    except ConfigError:
        return  # told by the check of the policy file
    except NoSecrets as e:
        yield Check("approvers", "FAULT", str(e))
        return
    missing = [n for n in named if n not in known]
    if missing:
        says = f"{', '.join(missing)}: named by the policy, but without a secret in {approvers_file()}"
        yield Check("approvers", "FAULT", says, f"gpu-runbooks approver add {missing[0]}")
    elif named:
        yield Check("approvers", "ok", f"destructive plans need a code of {', '.join(named)}")
    else:
        yield Check("approvers", "note", "none in the policy: names in approvals are as typed")


def _failed_messages() -> "Iterator[Check]":
    from deployments.doctor.check import Check
    from flows import store
    from flows.notify.outbox import FAILED, PROBLEM

    lost = store.find_runs([FAILED], since=datetime.now(UTC) - WEEK, limit=50)
    for run in lost[:5]:
        yield Check("notifications", "FAULT", f"{run.name} ({run.id}): {run.labels.get(PROBLEM)}", "gpu-runbooks notify test")
    if not lost:
        yield Check("notifications", "ok", "no message failed within a week")
