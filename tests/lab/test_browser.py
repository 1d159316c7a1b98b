"""The page in a real browser: start a run, see it grok, scrub, compare, reload, stop and resume,
share, and stay quiet before hostile names. Skipped where there is no chromium."""

from __future__ import annotations

import http.server
import re
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import grokscope as gs
from grokscope.draw.charts import CHARTS
from grokscope.lab.server import Lab, make_server
from grokscope.pages.files import save_chart
from grokscope.pages.reading import group_runs
from grokscope.pages.run import write_page
from grokscope.papers import PAPERS

playwright = pytest.importorskip(
    "playwright.sync_api", reason="the lab's page is tested with playwright (extra `dev`)"
)
CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
pytestmark = pytest.mark.skipif(
    not Path(CHROMIUM).exists(),
    reason="no chromium here: `apt-get install chromium` lets the lab's page be tested",
)
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
expect = playwright.expect
expect.set_options(timeout=180_000)  # the machine may be busy
PHONE_CHARTS = ("accuracy", "comparison", "attention")
STORES: dict[str, Path] = {}  # by the link of their lab
HOSTILE = "<img src=x onerror=\"document.title='owned'\"></script>"


@pytest.fixture(scope="module")
def address(tmp_path_factory, trained: list[gs.Run]) -> Iterator[str]:
    """A lab on a copy of the trained runs, with one hostile name more."""
    store = gs.Store(tmp_path_factory.mktemp("browser") / "runs")
    shutil.copytree(trained[0].path.parent, store.root)
    store.get(trained[3].id).annotate(name=HOSTILE, note=HOSTILE, tag=["<img/src=x>"])
    store.begin(gs.spec.ObservedSpec(HOSTILE, settings={"note": HOSTILE}))
    lab = Lab(store, Path("no-results"))
    server, link = make_server(lab, 0)
    STORES[link] = store.root
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield link
    for run in lab.orders.under_way():  # a test may have failed
        lab.orders.stop(run)
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser, address):
    """Opened with the link; whatever the browser complains of fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    page.goto(address)
    page.wait_for_url(lambda url: "token" not in url)
    page.complaints = complaints
    yield page
    expected = [c for c in complaints if "422" in c]  # refusals that a test has asked for
    assert complaints == expected
    context.close()


def go(page, address: str, view: str) -> None:
    """Opened anew: a page that still chooses its first run would change the address meanwhile."""
    page.goto("about:blank")
    page.goto(address.partition("?")[0] + view)


def test_the_token_is_gone_from_the_address(page, address) -> None:
    expect(page.locator("#headline")).to_be_visible()
    assert "token" not in page.url
    assert page.evaluate("document.cookie") == ""


def test_a_clone_is_started_seen_to_grok_and_scrubbed(page, address, trained) -> None:
    go(page, address, f"#view=new&from={trained[0].id}")
    page.fill("[name='task.modulus']", "1")
    expect(page.locator("#answer")).to_contain_text("task.modulus is 1; it must be at least 2.")
    expect(page.locator("#start")).to_be_disabled()
    page.fill("[name='task.modulus']", "13")
    expect(page.locator("#answer")).to_contain_text("finished")
    page.fill("[name='seed']", "2")
    expect(page.locator("#answer")).to_contain_text("1 run, to train")
    page.click("#start")
    expect(page.locator("#headline")).to_contain_text("Grokked at epoch")
    expect(page.locator("#events")).to_contain_text("memorised at")
    expect(page.locator("#events")).to_contain_text("after it had memorised")
    expect(page.locator(".plots figure")).to_have_count(7)
    pictures = page.locator(".pictures")
    expect(pictures).to_have_attribute("data-epoch", "final")
    expect(pictures.locator("figure")).to_have_count(3)
    page.locator("body").press("ArrowLeft")
    expect(pictures).to_have_attribute("data-epoch", "360")
    for _ in range(9):
        page.locator("body").press("ArrowLeft")
    expect(pictures).to_have_attribute("data-epoch", "0")
    expect(page.locator(".slider output")).to_have_text("epoch 0")
    expect(page.locator(".plots .reading").first).to_contain_text("0: ")
    assert "at=0" in page.url
    page.reload()
    expect(pictures).to_have_attribute("data-epoch", "0")
    grid = page.locator("canvas.square").nth(1)
    grid.click(position={"x": 8, "y": 8})
    expect(page.locator(".examples tr")).to_have_count(1)
    assert "examples=" in page.url
    page.locator("#grid").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator(".pictures figure:last-child [role=status]")).to_contain_text("(2, 0)")
    expect(pictures).to_have_attribute("data-epoch", "0")  # the slider has not moved
    page.keyboard.press("Enter")
    expect(page.locator(".examples tr")).to_have_count(2)
    expect(page.locator("#grid")).to_be_focused()


def test_arms_are_compared_with_their_members(page, address, trained) -> None:
    names = ",".join(run.id for run in trained)
    go(page, address, f"#view=runs&runs={names}")
    expect(page.locator(".compare tr.total")).to_have_count(2)
    expect(page.locator(".compare tr.member")).to_have_count(4)
    expect(page.locator("#differences tbody tr")).to_have_count(1)
    expect(page.locator("#differences")).to_contain_text("prior.kind")
    expect(page.locator("#arms .key")).to_have_text(["no prior", "oracle prior"])
    page.locator(".compare tr.member button").last.click()
    expect(page.locator(".kicker").first).to_contain_text(trained[-1].id[:8])
    page.click("#logx")
    assert "x=log" in page.url
    page.fill("#filter", "prior_kind = 'oracle'")
    expect(page.locator(".list [role=status]")).to_contain_text("2 runs in 1 arm")
    page.fill("#filter", "prior_kind like (select 1)")
    expect(page.locator(".list .wrong")).to_contain_text("No run has 'select'")


@pytest.mark.parametrize("seed", [0, 1])
def test_a_click_on_a_line_picks_its_run(page, address, trained, seed) -> None:
    """Of two seeds every line lies on an edge of the band."""
    arm = [run for run in trained if run.spec.prior.kind == "none"]
    first, other = arm[1 - seed], arm[seed]
    go(page, address, f"#view=runs&runs={first.id},{other.id}&focus={first.id}")
    plot = page.locator(".plots .u-over").first
    expect(plot).to_be_visible()
    curve = other.curve
    row = int((curve["test_accuracy"] - first.curve["test_accuracy"]).abs().arg_max())
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    x = box["width"] * curve["epoch"][row] / curve["epoch"][-1]
    y = box["height"] * (1 - curve["test_accuracy"][row] / 1.03)  # the top of shares
    plot.hover(position={"x": x, "y": y})
    expect(page.locator(".plots .reading").first).to_contain_text(f"seed {other.spec.seed}: ")
    assert plot.bounding_box() == box  # it has not moved from under the cursor
    plot.click(position={"x": x, "y": y})
    expect(page.locator(".kicker").first).to_contain_text(other.id[:8])
    assert f"focus={other.id}" in page.url


def test_the_same_run_with_another_seed(page, address, trained) -> None:
    go(page, address, f"#view=runs&runs={trained[2].id}")
    page.click("#again")
    expect(page.locator("[name='seed']")).to_have_value("2")
    expect(page.locator("[name='prior.kind']")).to_have_value("oracle")
    expect(page.locator("#answer")).to_contain_text("1 run, to train")


def test_an_observed_model_appears_while_it_trains(page, address, monkeypatch) -> None:
    torch = pytest.importorskip("torch", reason="the bridge needs the extra `torch`")
    from grokscope.bridge import observer as bridge

    class Reader(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = torch.nn.Embedding(7, 8)
            self.attention = torch.nn.MultiheadAttention(8, 1, batch_first=True)
            self.readout = torch.nn.Linear(8, 7)

        def forward(self, tokens):
            x = self.embed(tokens)
            return self.readout(self.attention(x, x, x, need_weights=False)[0][:, -1])

    monkeypatch.setattr(bridge, "WRITE_SECONDS", 0.0)  # every row at once
    tokens = torch.randint(7, (32, 3))
    batch, model = (tokens, tokens[:, 0]), Reader()
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.1)
    store = STORES[address]
    with bridge.Observer(model, "mine", informative=[0], every=1, store=store) as observer:
        for step in range(40):
            observer.step(step, batch)
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(tokens), batch[1]).backward()
            optimiser.step()
            if step == 20:
                go(page, address, f"#view=runs&runs={observer.run.id}")
                expect(page.locator(".kicker .status").first).to_have_text("under way")
                expect(page.locator(".plots")).to_have_attribute("data-rows", "21")
    expect(page.locator(".kicker .status").first).to_have_text("finished")
    expect(page.locator(".plots")).to_have_attribute("data-rows", "40")


def test_an_empty_store_says_how_to_begin(browser, tmp_path) -> None:
    server, link = make_server(Lab(gs.Store(tmp_path / "runs"), Path("no-results")), 0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    context = browser.new_context()
    page = context.new_page()
    page.goto(link)
    expect(page.locator("h1")).to_have_text("No runs yet")
    expect(page.locator(".hint")).to_contain_text(str(tmp_path / "runs"))
    page.click("text=Start a first run")
    expect(page.locator("#start")).to_be_enabled()
    context.close()
    server.should_exit = True
    thread.join(10)


def test_two_pages_see_the_same_news(browser, page, address, trained) -> None:
    other = page.context.new_page()
    other.goto(address.partition("?")[0])
    for one in (page, other):
        expect(one.locator(".list [role=status]")).to_contain_text("runs in")
    store = gs.Store(STORES[address])
    spec = trained[0].spec.replace(**{"optimiser.weight_decay": 0.123})
    run = store.begin(spec)
    curve = trained[0].curve
    rows = {n: np.array(curve[n].to_list(), np.float32) for n in ("train_loss", "test_accuracy")}
    epochs = curve["epoch"].to_numpy().astype(np.int32)
    store.save_progress(run, {"epoch": epochs, **rows}, None, {"segments": []})
    for one in (page, other):
        expect(one.locator(".arm .label", has_text="0.123")).to_be_visible()
    store.set_aside(run.path)


def test_a_foreign_page_cannot_order_or_read(browser, page, address) -> None:
    """The cookie is there, in the same browser; another origin (its port) uses it in vain."""

    class Evil(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><form method=post><input name=x></form>")

        def log_message(self, *words) -> None:
            pass

    home = address.partition("?")[0]
    with http.server.HTTPServer(("127.0.0.1", 0), Evil) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        evil = page.context.new_page()
        evil.goto(f"http://127.0.0.1:{server.server_port}/")
        ask = """async ([link, method, mode]) => {
            const body = method === "POST" ? "{}" : undefined;
            const options = { method, mode, body, credentials: "include" };
            try { return await (await fetch(link, options)).text(); } catch { return "refused"; }
        }"""
        assert evil.evaluate(ask, [home + "api/runs", "GET", "cors"]) == "refused"
        assert evil.evaluate(ask, [home + "api/start", "POST", "cors"]) == "refused"
        assert evil.evaluate(ask, [home + "api/runs", "GET", "no-cors"]) in ("", "refused")
        with evil.expect_navigation() as sent:
            evil.evaluate(
                "link => { document.forms[0].action = link; document.forms[0].submit(); }",
                home + "api/start",
            )
        assert sent.value.status == 403
        server.shutdown()


def test_a_run_is_stopped_and_resumed(page, address, trained) -> None:
    go(page, address, f"#view=new&from={trained[0].id}")
    page.fill("[name='training.epochs']", "300000")
    page.fill("[name='training.log_every']", "100")
    expect(page.locator("#answer")).to_contain_text("1 run, to train")
    page.locator("[name='training.log_every']").scroll_into_view_if_needed()
    page.click("#start")
    expect(page.locator(".kicker")).to_be_in_viewport()  # however far down the form was
    expect(page.locator("#events")).to_contain_text("memorised at")  # rows arrive while it trains
    expect(page.locator(".kicker .status")).to_have_text("under way")
    reading = page.locator(".plots .reading").first
    words = reading.inner_text()
    expect(reading).not_to_have_text(words)  # the numbers in words are those of the last row
    page.click("#stop")
    expect(page.locator("#resume")).to_be_visible()
    expect(page.locator(".kicker .status")).to_contain_text("stopped")
    page.click("#resume")
    expect(page.locator("#stop")).to_be_visible()
    page.click("#stop")
    expect(page.locator("#resume")).to_be_visible()


def test_a_run_is_forked_beside_its_parent(page, address, trained) -> None:
    parent = trained[0]
    go(page, address, f"#view=runs&runs={parent.id}&focus={parent.id}&at=180")
    expect(page.locator(".slider output")).to_have_text("epoch 180")
    page.click("#fork")
    expect(page.locator("h1")).to_contain_text("at epoch 180")
    page.fill("[name='model.width']", "16")
    expect(page.locator("#answer")).to_contain_text("model must stay as it is")
    page.fill("[name='model.width']", "32")
    page.select_option("[name='prior.kind']", "oracle")
    expect(page.locator("#answer")).to_contain_text("1 run, to train")
    page.click("#start")
    expect(page.locator(".compare tr.total")).to_have_count(2)
    expect(page.locator("#differences")).to_contain_text("fork.epoch")
    expect(page.locator(".kicker .status").first).to_have_text("finished")


def test_a_shared_view_works_offline(browser, page, address, trained, tmp_path) -> None:
    go(page, address, f"#view=runs&runs={trained[2].id}&focus={trained[2].id}&at=180")
    expect(page.locator(".pictures")).to_have_attribute("data-epoch", "180")
    with page.expect_download() as download:
        page.click("#share")
    file = tmp_path / "shared.html"
    download.value.save_as(file)
    assert "unsafe" not in file.read_text()
    context = browser.new_context(offline=True)
    alone = context.new_page()
    complaints: list[str] = []
    alone.on("pageerror", lambda error: complaints.append(str(error)))
    alone.on("console", lambda m: complaints.append(m.text) if m.type == "error" else None)
    alone.on("request", lambda r: complaints.append(r.url) if r.url.startswith("http") else None)
    alone.goto(file.as_uri())
    headline = page.locator("#headline").inner_text()
    expect(alone.locator("#headline")).to_have_text(headline)
    expect(alone.locator(".plots canvas")).to_have_count(7)
    expect(alone.locator(".pictures")).to_have_attribute("data-epoch", "180")
    alone.locator("body").press("ArrowLeft")
    expect(alone.locator(".pictures")).to_have_attribute("data-epoch", "90")
    assert complaints == []
    context.close()


def test_hostile_names_stay_text(page, address, trained) -> None:
    go(page, address, f"#view=runs&runs={trained[3].id}")
    expect(page.locator("#annotation")).to_have_text(f"{HOSTILE} <img/src=x>{HOSTILE}")
    assert page.locator("img").count() == 0
    expect(page.locator("#command")).to_contain_text("grokscope train ")
    go(page, address, "#view=runs&where=status%20%3D%20'partial'")
    label = page.locator(".arm .label", has_text="<img src=x")
    expect(label.first).to_be_visible()
    label.first.click()
    expect(page.locator(".kicker").first).to_contain_text("<img src=x onerror=")
    assert page.locator("img").count() == 0
    assert page.title() == "grokscope lab"


@pytest.mark.parametrize(
    "view",
    ["", "#view=runs&runs={run}", "#view=runs&runs={long}", "#view=new", "#view=runs&runs={both}"],
)
def test_a_phone_shows_everything_in_its_width(page, address, trained, view) -> None:
    page.set_viewport_size({"width": 420, "height": 800})
    store = gs.Store(STORES[address])
    store.get(trained[0].id).annotate(name="n" * 200, tag=["t" * 90])
    long = store.begin(gs.spec.ObservedSpec("x" * 200))
    runs = {"run": trained[0].id, "long": long.id, "both": f"{trained[0].id},{trained[2].id}"}
    go(page, address, view.format(**runs))
    expect(page.locator("#headline, #start").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 420


@pytest.fixture(scope="module")
def files(tmp_path_factory, trained) -> dict[str, Path]:
    """Pages that are files: figures of runs, a report, the papers."""
    folder = tmp_path_factory.mktemp("files")
    arms = group_runs(trained)
    drawn = {kind: save_chart(CHARTS[kind](arms), folder / f"{kind}.html") for kind in PHONE_CHARTS}
    report = write_page(folder / "report.html", arms, title="Two arms")
    docs = Path(__file__).parent.parent.parent / "docs"
    return {**drawn, "report": report, **{name: docs / f"{name}.html" for name in PAPERS}}


@pytest.mark.parametrize("name", [*PHONE_CHARTS, "report", *PAPERS])
def test_a_file_fits_a_phone_and_follows_dark_mode(browser, files, name) -> None:
    context = browser.new_context(viewport={"width": 420, "height": 800}, offline=True)
    page = context.new_page()
    shades = {}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.goto(files[name].as_uri())
        expect(page.locator("svg, canvas").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 420
        shade = "getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)"
        shades[scheme] = sum(page.evaluate(shade)[:3]) / 3
    assert shades["dark"] < 64 < 192 < shades["light"]
    context.close()


def test_keys_do_what_they_say(page, address, trained) -> None:
    go(page, address, f"#view=runs&runs={trained[0].id}")
    expect(page.locator("#headline")).to_be_visible()
    body = page.locator("body")
    body.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    body.press("j")
    expect(page).not_to_have_url(re.compile(f"runs={trained[0].id}"))
    body.press("/")
    expect(page.locator("#filter")).to_be_focused()
    page.keyboard.press("Escape")
    body.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    body.press("n")
    expect(page.locator("#start")).to_be_enabled()
