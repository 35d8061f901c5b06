"""Prefect's own UI in a real headless Chromium, as a person uses it: log in, fill the form, look, decide."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urljoin

from playwright.sync_api import Browser, Page, Playwright, TimeoutError, expect, sync_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or "/usr/bin/chromium"
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
)  # fmt: skip
PATIENCE_MS = 30_000
LANDS_MS = 20_000


class Ui:
    """One logged-in browser page. Nothing outside of this machine is loaded."""

    def __init__(self, page: Page, base: str) -> None:
        self.page, self.base = page, base

    def login(self, auth: str) -> None:
        """The login page asks for what stands in auth.json."""
        self.page.goto(self.base, wait_until="domcontentloaded")
        self.page.locator("input").first.fill(auth)
        self.page.keyboard.press("Enter")
        self.page.wait_for_url("**/dashboard**")

    def go(self, path: str) -> None:
        """Opens a page of the UI."""
        self.page.goto(f"{self.base}/v2{path}", wait_until="domcontentloaded")

    def fill_form(self, deployment_id: str, target: str, mode: str) -> None:
        """The run form of a deployment, ready to be sent."""
        self.go(f"/deployments/deployment/{deployment_id}/run")
        self.page.get_by_role("button", name="Submit").wait_for()
        self.page.get_by_text("Select", exact=True).first.click()
        self.page.get_by_text(target, exact=True).click()
        if mode != "diagnose":
            self.page.get_by_text("diagnose", exact=True).first.click()
            self.page.get_by_text(mode, exact=True).last.click()
            self.page.get_by_role("listbox").wait_for(state="hidden")

    def submit(self) -> None:
        """Sends the run form; the deployment's page with the new run follows."""
        self.page.get_by_role("button", name="Submit").click()
        self.page.wait_for_url(lambda url: not url.endswith("/run"), wait_until="commit")

    def open_run(self, run: str) -> None:
        """The page of a run."""
        self.go(f"/runs/flow-run/{run}")

    def shows(self, text: str) -> None:
        """Waits until the page shows `text`."""
        expect(self.page.get_by_text(text).first).to_be_visible(timeout=PATIENCE_MS)

    def open_decision(self, run: str) -> str:
        """Opens the approval form of a waiting run; returns its whole text."""
        self.open_run(run)
        self.shows("Suspended")
        menu = self.page.get_by_role("menuitem", name="Resume", exact=True)
        self.page.get_by_role("button", name="Open menu").first.click()
        menu.click()
        dialog = self.page.get_by_role("dialog")
        dialog.get_by_text("Asked because").wait_for()
        return dialog.inner_text()

    def first_words(self) -> str:
        """What the open approval form says before everything else."""
        return str(self.page.get_by_role("dialog").locator(".prose").inner_text()).lstrip()

    def details_shown(self) -> bool:
        """Whether the open form shows its details already, which would push the choice down."""
        return bool(self.page.get_by_role("dialog").locator("details strong").first.is_visible())

    def open_details(self) -> str:
        """Unfolds the details of the open approval form; returns the form's whole text."""
        dialog = self.page.get_by_role("dialog")
        dialog.locator("summary").first.click()
        dialog.locator("details strong").first.wait_for()
        return dialog.inner_text()

    def decide(self, decision: str, who: str, why: str = "") -> None:
        """Fills the open approval form and sends it."""
        dialog = self.page.get_by_role("dialog")
        if decision != "reject":
            dialog.get_by_text("reject", exact=True).first.click()
            self.page.get_by_role("option", name=decision, exact=True).click()
        dialog.get_by_label("Who").fill(who)
        dialog.get_by_label("Why").fill(why)
        send = dialog.get_by_role("button", name="Resume")
        send.click()
        try:
            dialog.wait_for(state="hidden")
        except TimeoutError:  # a click that came while the form was drawn anew is lost
            send.click()
            dialog.wait_for(state="hidden", timeout=2 * PATIENCE_MS)


def launched(p: Playwright) -> Browser:
    """The browser itself; each context of it is a profile of its own."""
    assert Path(CHROMIUM).exists(), "no Chromium: apt-get install chromium"
    return p.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)


def lands(browser: Browser, base: str, link: str, auth: str, text: str) -> bool:
    """Whether a reader without cookies who opens `link` and logs in sees `text` on the page that it names."""
    try:
        with landed(browser, base, link, auth, text) as page:
            return link.rpartition("/")[2] in page.url
    except TimeoutError:
        return False


@contextmanager
def landed(browser: Browser, base: str, link: str, auth: str, text: str) -> Iterator[Page]:
    """The page that a reader without cookies sees who opens `link` and logs in, once it shows `text`. Raises TimeoutError."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    try:
        page = context.new_page()
        page.route("**/*", lambda r: r.continue_() if r.request.url.startswith(base) else r.abort())
        page.goto(urljoin(base, link), wait_until="domcontentloaded")
        page.locator("input").first.fill(auth, timeout=LANDS_MS)
        page.keyboard.press("Enter")
        page.get_by_text(text).first.wait_for(timeout=LANDS_MS)
        yield page
    finally:
        context.close()


@contextmanager
def open_ui(base: str, auth: str, height: int = 900) -> Iterator[Ui]:
    """A browser of its own, logged in."""
    with sync_playwright() as p:
        browser = launched(p)
        page = browser.new_page(viewport={"width": 1280, "height": height})
        page.set_default_timeout(PATIENCE_MS)
        page.route("**/*", lambda r: r.continue_() if r.request.url.startswith(base) else r.abort())
        ui = Ui(page, base)
        ui.login(auth)
        yield ui
        browser.close()
