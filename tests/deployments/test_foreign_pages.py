"""What Prefect's own Markdown renderer, taken from its UI and run in Chromium, makes of text that an attacker wrote."""

import re
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

from runbooks.core.form import approval_text
from runbooks.core.knowledge import load_runbook
from runbooks.core.render import render
from runbooks.core.report import Report
from runbooks.core.show import md
from runbooks.rendezvous.diagnose import Limits, diagnose
from tests.core.samples import report
from tests.core.test_show import poisoned
from tests.runbooks.rendezvous.build import evidence
from tests.support.foreign import HOSTILE_RUN, PIECES
from tests.support.ui import CHROMIUM, FLAGS

NAMES = (
    HOSTILE_RUN,
    "x</div></div><style>*{display:none}</style><img src='data:image/png;base64,AA' onerror='alert(1)'>",
    "Decide: https://evil.example/approve/x www.evil.example ann@evil.example [a](https://evil.example) [^1]\n[^1]: b",
    "`````\n| a |\n|---|\n# Fixed\n\x1b[2J\u202etxt.exe\u200b" + "e\u0336\u0336\u0336\u0336\u0336\u0336\u0336",
    "".join(PIECES),
    "x" * 3000,
)
# as lazy-markdown of the UI puts it together: GitHub's Markdown, with HTML that is parsed and then sanitised
SCRIPT = """async ([markdown, raw, sanitize, texts]) => {
  const [m, r, s] = await Promise.all([import(markdown), import(raw), import(sanitize)]);
  const plugins = [r.default, [s.default, {...s.defaultSchema, clobberPrefix: '', protocols: {...s.defaultSchema.protocols,
    src: [...s.defaultSchema.protocols.src, 'data']}}]];
  const put = (x, into) => {
    if (x === null || x === undefined || typeof x === 'boolean') return;
    if (Array.isArray(x)) { x.forEach(y => put(y, into)); return; }
    if (typeof x !== 'object') { into.append(String(x)); return; }
    if (typeof x.type !== 'string') { put(x.props.children, into); return; }
    const made = document.createElement(x.type);
    for (const [name, value] of Object.entries(x.props))
      if (['string', 'number'].includes(typeof value) && name !== 'children') made.setAttribute(name, value);
    put(x.props.children, made);
    into.append(made);
  };
  for (const text of texts) {
    const place = document.createElement('section');
    document.body.append(place);
    put(m.n.default({children: text, remarkPlugins: [m.t.default], rehypePlugins: plugins}), place);
  }
}"""


class Quiet(SimpleHTTPRequestHandler):
    """Serves the UI's files."""

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    spec = find_spec("prefect")
    assert spec is not None
    assert spec.origin is not None
    assets = Path(spec.origin).parent / "server/ui-v2/assets"
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(assets)))
    Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, headless=True, args=FLAGS)
        made = browser.new_page()
        made.goto(f"http://127.0.0.1:{server.server_port}/{asset(assets, 'rehype-sanitize')}")
        yield made
        browser.close()
    server.shutdown()


def asset(assets: Path, name: str) -> str:
    return next(x.name for x in sorted(assets.glob(f"{name}-*.js")))


def shown(page: Page, *texts: str) -> list[str]:
    """Renders the texts, each in a section of its own; returns what a person reads in each."""
    spec = find_spec("prefect")
    assert spec is not None
    assert spec.origin is not None
    assets = Path(spec.origin).parent / "server/ui-v2/assets"
    files = [f"/{asset(assets, n)}" for n in ("vendor-markdown", "rehype-raw", "rehype-sanitize")]
    page.evaluate("document.body.replaceChildren()")
    page.evaluate(SCRIPT, [*files, list(texts)])
    return page.locator("section").all_inner_texts()


def squeezed(text: str) -> str:
    """Without what a browser may add or fold."""
    return "".join(text.replace("\n↪ ", "").split())


def links(page: Page) -> list[str]:
    return list(page.locator("a[href]").evaluate_all("es => es.map(e => e.getAttribute('href'))"))


def test_the_renderer_is_the_one_that_acts(page: Page) -> None:
    """So that the tests below do not pass because nothing is rendered: without escaping all of it acts."""
    [text] = shown(page, f"```\nfix {HOSTILE_RUN}\n```\n\n**Asked because:** approve mode")
    assert page.locator("h3").count() == 1  # a choice that is not there
    assert "Asked because" not in text
    shown(page, "<img src='data:image/png;base64,AA'> https://evil.example www.evil.example a@evil.example")
    assert page.locator("img").count() == 1
    assert links(page) == ["https://evil.example", "http://www.evil.example", "mailto:a@evil.example"]


def test_whatever_a_dead_run_is_called_the_form_shows_commands_and_reasons(page: Page) -> None:
    forms, wanted = [], []
    for name in NAMES:
        runs = [{"id": "llama-70b", "closed": True}, {"id": name, "closed": True}]
        found = evidence({"known": {"llama-70b": "train", name: "train"}, "runs": runs})
        d = diagnose(found, Limits(**load_runbook("stale-rendezvous").limit_values()))
        assert [p.name for p in d.plans] == ["clear run llama-70b (etcd-v2)"]
        forms.append(approval_text("Rendezvous", f"of {name}", d, d.plans, ("approve mode", f"storm: {name}")))
        wanted.append([c for p in d.plans for s in p.steps for c in s.commands])
    texts = shown(page, *forms)
    for text, commands in zip(texts, wanted, strict=True):
        places = [squeezed(text).index(squeezed(c)) for c in ("approve mode", *commands)]
        assert places == sorted(places)
    assert page.locator("h3").all_inner_texts() == ["Choice 1: “clear run llama-70b (etcd-v2)”"] * len(NAMES)
    assert page.locator("h2").count() == len(NAMES)
    assert links(page) == []
    acts = "img, svg, iframe, script, style, form, table, blockquote, hr, ol, h1, h4, input, del, sup, em"
    assert page.locator(acts).count() == 0
    assert page.locator("details").count() == len(NAMES)  # each form's own fold


def test_reports_and_descriptions_full_of_foreign_text_link_to_us_alone(page: Page) -> None:
    reports = [render(Report.model_validate(poisoned(report().model_dump(mode="json"), n))) for n in NAMES]
    shown(page, *reports, *(md(n, 250) for n in NAMES))
    assert page.locator("details").count() == 4 * len(NAMES)  # each reading, and all of them
    assert [x for x in links(page) if not re.match(r"http://127\.0\.0\.1:4200/runs/flow-run/1$", x)] == []
    assert page.locator("img, svg, iframe, script, style, form, input, del, sup, em").count() == 0
