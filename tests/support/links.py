"""Every address in a text of ours, and what its reader is to see on the page that it names."""

import html
import re
from urllib.parse import unquote, urlsplit
from uuid import UUID

from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterId

from flows import store
from flows.ui_pages import UiPage
from runbooks.core.knowledge import load_runbook, runbook_slugs

WEB = re.compile(r"https?://[^\s<>()\"'`|\\]+")
WITHIN = re.compile(r"(?<=\]\()/[^\s)]*")  # a link of Markdown within the UI
HEADING = re.compile(r"^# (.+)$", re.M)


def links_in(text: str) -> set[str]:
    """All that can be followed; what is defanged or quoted by an escaper is none."""
    return {link.rstrip(".,;:") for link in WEB.findall(html.unescape(text))} | set(WITHIN.findall(text))


def sources() -> set[str]:
    """Addresses of the world that runbook.yaml names as references."""
    books = [load_runbook(slug) for slug in runbook_slugs()]
    return {ref for b in books for ref in (*b.references, *(r for c in b.causes.values() for r in c.references))}


def promised(link: str) -> str:
    """Words of the page in Prefect's UI that `link` names. Raises ValueError for one that is no page of it."""
    path = unquote(urlsplit(link.replace("/login?redirectTo=", "")).path).removeprefix("/v2").strip("/")
    if path == UiPage.HOME:
        return "Dashboard"
    page = next((p for p in UiPage if p is not UiPage.HOME and path.startswith(f"{p}/")), None)
    name = path.removeprefix(f"{page}/")
    if page is UiPage.RUN:
        return str(store.read_run(name).name)
    if page is UiPage.ARTIFACT:
        return _heading(name)
    if page is UiPage.VERSIONS:
        return name
    if page is UiPage.DEPLOYMENT:
        return str(store.ask(lambda c: c.read_deployment(UUID(name.removesuffix("/run")))).name)
    raise ValueError(link)


def _heading(ident: str) -> str:
    wanted = ArtifactFilter(id=ArtifactFilterId(any_=[UUID(ident)]))
    (artifact,) = store.ask(lambda c: c.read_artifacts(artifact_filter=wanted))
    found = HEADING.search(str(artifact.data))
    assert found, ident
    return found[1].replace("\\", "").replace("`", "")
