"""notify: sends a test message and says what happened per channel; shows who gets what."""

import argparse
import json
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from deployments.cli.missing_secrets import check_channels
from deployments.errors import CommandError
from deployments.serving import use_running_server
from runbooks.core.names import there_are
from runbooks.core.outcome import Severity
from runbooks.core.show import chat_text
from runbooks.core.times import utc
from runbooks.notify.config import Notifications
from tasks.notify.outgoing import Outgoing
from tasks.notify.send import send

NO_FILE = (
    "no one is notified: there is no notifications.yaml. Copy deployments/notifications.example.yaml into the "
    "state folder, or name your file in GPU_RUNBOOKS_NOTIFICATIONS"
)


@dataclass(frozen=True)
class ChannelResult:
    """What one channel said."""

    channel: str
    ok: bool
    said: str
    person: str = ""


def cmd_notify(ns: argparse.Namespace) -> int:
    """`gpu-runbooks notify test|check`."""
    return {"test": _test, "check": _check}[ns.notify_command](ns)


def _config(path: str | None) -> Notifications:
    from flows.notify.notify_file import load_notifications

    found = load_notifications(path)
    if found is None:
        raise CommandError(NO_FILE, 2)
    check_channels(found, path)
    return found


def _test(ns: argparse.Namespace) -> int:
    """Sends for real. 0 if every channel took it, else 1."""
    config = _config(ns.file)
    names = [ns.to] if ns.to else sorted(config.channels)
    if ns.to and ns.to not in config.channels:
        raise CommandError(f"no channel {ns.to!r}; {there_are(ns.to, sorted(config.channels))}", 2)
    if any(config.channels[n].url.secret for n in names):
        use_running_server()
    results = test_channels(config, names)
    if ns.json:
        print(json.dumps([asdict(r) for r in results], indent=1))
    else:
        for r in results:
            print(f"{'sent' if r.ok else 'FAILED':<6}  {r.channel}{f' ({r.person})' if r.person else ''}: {r.said}")
    return 0 if all(r.ok for r in results) else 1


def test_channels(config: Notifications, names: Iterable[str]) -> list[ChannelResult]:
    """A test message to each of these channels, at once."""
    out = Outgoing(
        incident="test",
        severity=Severity.INFO,
        title=chat_text("[test] gpu-runbooks: a test message"),
        body=chat_text("Sent by `gpu-runbooks notify test` at {}. Nothing is wrong.", utc(datetime.now(UTC))),
        closing=True,  # PagerDuty: opens no incident
    )

    def one(name: str) -> ChannelResult:
        sent = send(config.channels[name], out)
        return ChannelResult(name, sent.ok, sent.said, config.channels[name].person)

    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(one, names))


def _check(ns: argparse.Namespace) -> int:
    """Reads the file and says who gets a message with these labels. Sends nothing."""
    config = _config(ns.file)
    asked = dict(_label(text) for text in ns.label)
    rows = [asked] if asked else [{"severity": s.value} for s in Severity]
    found = [{"labels": labels, "to": list(config.channels_for(labels))} for labels in rows]
    if ns.json:
        print(json.dumps(found, indent=1))
        return 0
    for labels, row in zip(rows, found, strict=True):
        words = ", ".join(f'{k}="{v}"' for k, v in labels.items())
        print(f"{words}: {', '.join(row['to']) or 'nobody'}")
    q = config.quiet
    print(f"quiet hours: {q.begin} to {q.end} {q.zone}, for messages that need no person" if q else "quiet hours: none")
    people = sorted({c.person for c in config.channels.values() if c.person})
    if people and not config.links.gateway:
        print("no approve links: links.gateway is not set", file=sys.stderr)
    return 0


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise CommandError(f"--label {text!r}: write NAME=VALUE", 2)
    return name, value.strip('"')
