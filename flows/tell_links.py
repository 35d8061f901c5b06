"""Links of a message: report, and the page where its reader can decide. Made when it is sent, never stored."""

import logging
import os
from datetime import datetime, timedelta

from runbooks.core.outcome import Outcome
from runbooks.notify.config import Notifications
from runbooks.notify.link import Ticket, sign
from runbooks.notify.message import Message
from tasks.notify.keys import NoKey, link_key

log = logging.getLogger("flows.telling")
LONGEST = timedelta(hours=24)  # a link never outlives this, whatever the approval does


def links_for(message: Message, config: Notifications, person: str, now: datetime) -> dict[str, str]:
    """Name → URL. A channel with one person behind it gets a signed link; a room gets the page where one logs in."""
    ui = ui_address(config)
    run_page = f"{ui}/runs/flow-run/{message.run}" if ui else ""
    links = {"Report": f"{ui}/artifacts/key/{message.artifact}" if ui and message.artifact else run_page}
    if message.outcome is Outcome.WAITING:
        page = _approve_page(message, config, person, now)
        if page:
            links[f"Decide (for {person} alone; opening it decides nothing)"] = page
        links["Decide in Prefect's UI"] = run_page
    else:
        links["Run"] = run_page
    return {name: url for name, url in links.items() if url} or {"Report on the worker": message.report}


def ui_address(config: Notifications) -> str:
    """Prefect's UI: from the file, else where the API is."""
    given = config.links.ui or os.environ.get("PREFECT_UI_URL") or os.environ.get("PREFECT_API_URL", "")
    return given.rstrip("/").removesuffix("/api")


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
