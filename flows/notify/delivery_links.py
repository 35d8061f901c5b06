"""Links of a message: report, and the page where its reader can decide. Made when it is sent, never stored."""

import logging
from datetime import datetime, timedelta

from flows import artifacts
from flows.ui_pages import UiPage, ui_url
from runbooks.core.outcome import Outcome
from runbooks.notify.config import Notifications
from runbooks.notify.link import Ticket, sign
from runbooks.notify.message import Message
from tasks.notify.keys import NoKey, link_key

log = logging.getLogger("flows.notify")
LONGEST = timedelta(hours=24)  # a link never outlives this, whatever the approval does


def links_for(message: Message, config: Notifications, person: str, now: datetime) -> dict[str, str]:
    """Name → URL. A channel with one person behind it gets a signed link; a room gets the page where one logs in."""
    run_page = ui_url(UiPage.RUN, message.run, config.links.ui)
    key = message.artifact
    report = artifacts.addresses([key], config.links.ui)[key] if key else run_page
    links = {"Report": report}
    if message.outcome is Outcome.WAITING:
        page = _approve_page(message, config, person, now)
        if page:
            links[f"Decide (only for {person}; opening it decides nothing)"] = page
        links["Decide in Prefect's UI"] = run_page
    else:
        links["Run"] = run_page
    return {name: url for name, url in links.items() if url} or {"Report on the worker": message.report}


def _approve_page(message: Message, config: Notifications, person: str, now: datetime) -> str:
    if not (config.links.gateway and person and message.approval_key):
        return ""
    try:
        key = link_key()
    except NoKey as e:
        log.error("no approve link: %s", e)
        return ""
    ends = min(message.expires or now + LONGEST, now + LONGEST)
    ticket = Ticket(run=message.run, key=message.approval_key, person=person, ends=ends)
    return f"{config.links.gateway.rstrip('/')}/approve/{sign(ticket, key)}"
