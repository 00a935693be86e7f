"""The site in a real browser: nothing leaves its origin, nothing breaks, a phone is wide enough."""

from __future__ import annotations

import shutil
import threading

import pytest

from fixtures.report import synthetic
from fixtures.report.sites import NOW, resources
from integration.test_site_build import make_hostile
from rentbench.report.build import build
from rentbench.report.serve import make_server

playwright = pytest.importorskip("playwright.sync_api")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
RESULT = f"results/{synthetic.identifier(1)}.html"
PLACES = ("index.html", "suites/gemm.html", "suites/preflight.html", RESULT, "method.html", "nowhere.html")

pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    with resources(folder / "resources"):
        synthetic.write_collection(folder / "results")
        return build(folder / "results", folder / "site", strict=True, now=NOW).output


@pytest.fixture(scope="module")
def origin(site):
    with make_server(site, 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as engine:
        started = engine.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield started
        started.close()


class Visit:
    """A page that was opened, with what it asked for and complained of."""

    def __init__(self, browser, address, **context):
        self.outside, self.complaints = [], []
        self._origin = address.rpartition(":")[0] if address.startswith("http") else "file://"
        self._context = browser.new_context(**context)
        self.page = self._context.new_page()
        self.page.on("request", self._request)
        self.page.on(
            "console", lambda line: self.complaints.append(line.text) if line.type == "error" else None
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address, wait_until="networkidle")

    def _request(self, request):
        if not request.url.startswith((self._origin, "data:", "blob:")):
            self.outside.append(request.url)

    def close(self):
        self._context.close()


@pytest.fixture
def visit(browser):
    opened = []

    def open_page(address, **context):
        opened.append(Visit(browser, address, **context))
        return opened[-1]

    yield open_page
    for each in opened:
        each.close()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_pages_stay_at_home_and_fit_the_screen(visit, origin, width, scheme, tmp_path):
    for place in PLACES:
        opened = visit(origin + place, viewport={"width": width, "height": 900}, color_scheme=scheme)
        expected = [] if place != "nowhere.html" else ["the server responded with a status of 404"]
        assert opened.outside == [], place
        assert [line for line in opened.complaints if not any(text in line for text in expected)] == [], place
        assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
        name = place.replace("/", "-").removesuffix(".html")
        opened.page.screenshot(path=tmp_path / f"{name}-{width}-{scheme}.png", full_page=True)
        assert (tmp_path / f"{name}-{width}-{scheme}.png").stat().st_size > 10_000


def test_every_figure_is_readable_without_scripts(visit, origin):
    with_scripts = visit(origin + "suites/gemm.html").page
    without = visit(origin + "suites/gemm.html", java_script_enabled=False).page
    cells = "td.rb-num"
    assert without.locator(cells).all_inner_texts() == with_scripts.locator(cells).all_inner_texts()
    assert without.locator(".rb-wide svg[role=img]").first.is_visible()
    assert not without.locator("button[data-copy]").first.is_visible()


def test_the_folder_works_without_a_server(visit, site):
    opened = visit((site / "index.html").as_uri())
    opened.page.locator(".rb-card h3 a").first.click()
    assert opened.page.url.endswith("suites/gemm.html")
    opened.page.locator("table a[href*='results/']").first.click()
    assert opened.page.locator("h1").inner_text() == "Dense matrix multiplication"
    assert opened.complaints == []
    assert opened.outside == []


def test_tables_sort_by_number_and_back(visit, origin):
    page = visit(origin + "suites/gemm.html").page
    table = page.locator("table[data-sortable]").first
    head = table.get_by_role("button", name="Matrix multiplication")
    values = "rows => rows.filter(row => row.cells.length > 5).map(row => row.cells[3].dataset.value)"
    rows = table.locator("tbody tr")
    before = rows.evaluate_all(values)
    head.click()
    ascending = [float(value) for value in rows.evaluate_all(values)]
    assert ascending == sorted(ascending)
    head.click()
    assert [float(value) for value in rows.evaluate_all(values)] == sorted(ascending, reverse=True)
    head.click()
    assert rows.evaluate_all(values) == before


def test_the_command_can_be_copied(visit, origin):
    opened = visit(origin + RESULT, permissions=["clipboard-read", "clipboard-write"])
    opened.page.locator("button[data-copy]").click()
    copied = opened.page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("mkdir -p results && docker run --rm --user ")
    assert opened.page.locator("button[data-copy]").inner_text() == "Copied"


def test_search_finds_suites_and_no_results(visit, origin):
    page = visit(origin + "index.html", viewport={"width": 1440, "height": 900}).page
    box = page.locator(".md-search__input")
    box.click()
    page.get_by_text("Type to start searching").wait_for()
    box.press_sequentially("multiplication")
    page.locator(".md-search-result__item").first.wait_for()
    links = page.locator(".md-search-result__link").evaluate_all("all => all.map(each => each.href)")
    assert any("suites/gemm.html" in link for link in links)
    assert not [link for link in links if "/results/" in link]


def test_hostile_results_run_nothing(visit, tmp_path):
    with resources(tmp_path / "resources"):
        make_hostile(tmp_path / "results")
        site = build(tmp_path / "results", tmp_path / "site", strict=True, now=NOW).output
    for path in (site / "index.html", site / "suites" / "gemm.html", *(site / "results").iterdir()):
        opened = visit(path.as_uri(), viewport={"width": 390, "height": 900})
        assert opened.page.evaluate("window.pwned") is None, path.name
        assert opened.complaints == [], path.name
        assert opened.outside == [], path.name
        assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path.name
