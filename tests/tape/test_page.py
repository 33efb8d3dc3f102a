"""The page of a tape, in a browser: it opens, finds, folds, selects, and says what is true."""

import os
import re
import shutil

import pytest
from library import IS_SANITIZED, IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the page is tapegrad's own", allow_module_level=True)
if IS_SANITIZED:
    pytest.skip("a browser does not start with the sanitizers' runtime", allow_module_level=True)

from tape.documents import Builder, gpt, random_graph, small
from tapegrad import tape
from tapegrad.tape.show import html_page, timeline, write_html

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)
MOST_PAGE = 120_000  # bytes without a tape
WIDE, NARROW = (1400, 900), (420, 900)


def peak_by_hand(document):
    """Return the most bytes alive at once, from sets of live storages."""
    entries = document["entries"]
    price = {}
    for entry in entries:
        for value in entry["saved"]:
            price[value["storage"]] = price.get(value["storage"], 0) + value["bytes"]
    live, sizes = set(), [0]
    for entry in entries:
        live |= {value["storage"] for value in entry["saved"]}
        sizes.append(sum(price[storage] for storage in live))
    needed = [{value["storage"] for value in entry["saved"]} for entry in entries]
    while needed:
        needed.pop()
        live = live & set().union(*needed)
        sizes.append(sum(price[storage] for storage in live))
    return max(sizes)


# ---- the browser


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """Start Chromium without a window."""
    if not (CHROMIUM and DRIVER):
        pytest.skip("no chromium with chromedriver: apt-get install chromium chromium-driver")
    webdriver = pytest.importorskip("selenium.webdriver", reason="pip install tapegrad[test]")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(DRIVER, log_output=os.devnull)
    found = webdriver.Chrome(options=options, service=service)
    yield found
    found.quit()


class Page:
    """One open page: what a reader sees and does."""

    def __init__(self, driver):
        self.driver = driver

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def flush(self):
        self.run("tapePage.flush()")

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).innerText", selector)

    def press(self, *keys):
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(*keys).perform()
        self.flush()

    def click(self, selector):
        self.driver.find_element("css selector", selector).click()
        self.flush()

    def move(self, selector, x, y, *, click=False):
        """Move to a point of an element, counted from its corner, and click if asked to."""
        from selenium.webdriver import ActionChains

        element = self.driver.find_element("css selector", selector)
        size = element.size
        dx, dy = int(x - size["width"] // 2), int(y - size["height"] // 2)
        actions = ActionChains(self.driver, duration=0)
        actions.move_to_element_with_offset(element, dx, dy)
        (actions.click() if click else actions).perform()
        self.flush()

    def search(self, query):
        from selenium.webdriver import Keys

        field = self.driver.find_element("id", "search")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE)
        field.send_keys(query)
        self.flush()
        return self.text("#found")

    @property
    def selected(self):
        return self.run("return tapePage.selected")

    def boxes(self):
        """Return the boxes of the graph on the screen: entries by number, groups by path."""
        return self.run(
            """
            const { graph } = tapePage.views, { x, y, scale } = graph.view, found = {};
            for (const [item, box] of [...graph.leaves, ...graph.frames])
              found[typeof item === "number" ? item : item.path] =
                [x + box.x * scale, y + box.y * scale, box.width * scale, box.height * scale];
            return found;
            """
        )

    def click_box(self, name):
        x, y, width, _ = self.boxes()[str(name)]
        self.move("#graph", x + width / 2, y + 8, click=True)


@pytest.fixture
def open_page(driver, tmp_path):
    """Give a function that writes and opens the page of a document; errors in it fail the test."""
    emulated = []

    def open_(document, size=WIDE, dark=False):
        emulated.append(dark)
        width, height = size
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        path = write_html(document, tmp_path / "page.html")
        driver.get(path.as_uri())
        from selenium.webdriver.support.ui import WebDriverWait

        ready = "return Boolean(window.tapePage && tapePage.readyAfter)"
        WebDriverWait(driver, 60, 0.02).until(lambda d: d.execute_script(ready))
        return Page(driver)

    driver.get_log("browser")
    yield open_
    assert emulated
    assert driver.get_log("browser") == []


@pytest.fixture(scope="module")
def large():
    return gpt(27)


@pytest.fixture(scope="module")
def huge():
    return gpt(925, times=False)


@pytest.fixture
def page(open_page, large):
    return open_page(large)


# ---- the file


def test_it_is_small(large, huge):
    assert 1_400 < len(large["entries"]) < 1_600
    assert len(huge["entries"]) >= 49_900
    empty = Builder("nothing").document()
    assert len(html_page(empty).encode()) < MOST_PAGE
    assert len(html_page(large).encode()) < 300_000
    assert len(html_page(huge).encode()) < 3_000_000


def test_it_refers_to_nothing_outside():
    text = html_page(small())
    assert (
        re.findall(r"https?://|url\(|@import|src=|<link(?! rel=\"icon\" href=\"data:,\")", text)
        == []
    )
    assert "default-src 'none'" in text


def test_texts_that_look_like_its_own_places():
    text = html_page(small("{{script}} {{data}}"))
    assert text.count("{{script}}") == 2  # title and heading
    assert text.count('"use strict"') == 1


# ---- opening


@pytest.mark.parametrize("name", ["small", "large", "huge", "random", "flat"])
def test_it_opens_and_knows_its_peak(open_page, name, request):
    documents = {
        "small": small,
        "large": lambda: request.getfixturevalue("large"),
        "huge": lambda: request.getfixturevalue("huge"),
        "random": lambda: random_graph(700, modules=30, seed=3),
        "flat": lambda: random_graph(2_000, seed=4),
    }
    document = documents[name]()
    page = open_page(document)
    count = len(document["entries"])
    assert page.text("#title") == document["title"]
    assert page.text("#facts").startswith(f"{count:,} entries · ")
    assert page.run("return performance.getEntriesByType('resource').length") == 0
    if count < 5_000:  # the slow way takes the square of it
        assert page.run("return Number(peak.dataset.bytes)") == peak_by_hand(document)
    expected = timeline(document)
    assert page.run("return Number(peak.dataset.bytes)") == expected.peak
    assert page.run("return Number(peak.dataset.step)") == expected.peak_step
    live = page.run("return Array.from(tapePage.tape.live)")
    assert live == expected.forward + expected.backward
    for tab in ("bytes", "table", "graph"):
        page.click(f"#tab-{tab}")
        assert page.run("return document.querySelectorAll('.view:not([hidden])').length") == 1


def test_an_empty_tape(open_page):
    page = open_page(Builder("nothing").document())
    assert page.text("#facts").startswith("0 entries · 0 B saved")
    for tab in ("bytes", "table", "graph"):
        page.click(f"#tab-{tab}")
    assert page.search("anything") == "nothing"
    page.press("\ue014", "\ue00c")  # right, escape
    assert page.selected == -1


def test_a_tape_that_saved_nothing(open_page):
    b = Builder("views only")
    leaf = b.leaf("x", [4, 4])
    for _ in range(5):
        leaf = b.op("t", [(leaf, 0)], [[4, 4]])
    page = open_page(b.document())
    assert "6 entries · 0 B saved · 0 B at the peak" in page.text("#facts")
    for tab in ("bytes", "table", "graph"):
        page.click(f"#tab-{tab}")
    page.press("\ue015")
    assert page.selected == 0


def test_hostile_texts_stay_texts(open_page):
    hostile = "</script><img src=x onerror=alert(1)>&amp;\"'"
    page = open_page(small(f"a {hostile} title", hostile=hostile))
    assert page.run("return document.images.length") == 0
    assert page.text("#title") == f"a {hostile} title"
    page.run("tapePage.select(1)")
    page.flush()
    assert f"mm{hostile}" in page.text("#detail h2")
    assert hostile in page.text("#detail pre")
    page.click("#tab-table")
    assert f"mm{hostile}" in page.text("#table")
    assert page.run("return document.images.length") == 0


# ---- search and keys


class TestSearch:
    def test_words_narrow_it(self, page, large):
        entries = large["entries"]
        softmax = [e for e in entries if e["op"] == "softmax"]
        assert page.search("op:softmax").startswith(f"{len(softmax)} · ")
        inside = [e for e in entries if (e["module"] + ".").startswith("blocks.1.")]
        assert page.search("module:blocks.1").startswith(f"{len(inside)} · ")
        big = [e for e in inside if e["bytes"] >= 2**20]
        assert page.search("module:blocks.1 >1MiB").startswith(f"{len(big)} · ")
        attention = [e for e in entries if re.fullmatch(r"blocks\.\d+\.attn(\..*)?", e["module"])]
        assert page.search("module:blocks.*.attn").startswith(f"{len(attention)} · ")
        line = [e for e in entries if e["line"].startswith("model.py:37,")]
        assert page.search("line:model.py:37").startswith(f"{len(line)} · ")
        assert page.search("#17").startswith("1 · ")
        assert page.search("shape:[8,256,384]") != "nothing"
        assert page.search("no such thing") == "nothing"

    def test_enter_goes_from_match_to_match(self, page, large):
        from selenium.webdriver import Keys

        places = [e["index"] for e in large["entries"] if e["op"] == "softmax"]
        page.search("op:softmax")
        field = page.driver.find_element("id", "search")
        forth = [(False, place) for place in places[:3]]
        for back, place in (
            *forth,
            *((True, place) for place in (places[1], places[0], places[-1])),
        ):
            field.send_keys(*(Keys.SHIFT, Keys.ENTER) if back else Keys.ENTER)
            assert page.selected == place
        page.click("#next")
        assert page.selected == places[0]

    def test_it_filters_the_table(self, page, large):
        page.click("#tab-table")
        page.search("op:gelu")
        rows = page.driver.find_elements("css selector", "#table .row")
        count = sum(e["op"] == "gelu" for e in large["entries"])
        assert len(rows) == min(count, len(rows)) and page.text("#rows").startswith(
            f"{count} entries"
        )
        assert {row.text.split("\n")[1] for row in rows} == {"gelu"}
        page.search("zzz")
        assert page.text("#table").endswith("No entry matches the search.")

    def test_closed_modules_know_their_matches(self, page):
        page.search("op:gelu module:blocks.2")
        inside = "return tapePage.matchesIn(tapePage.modules.byPath.get(arguments[0]))"
        assert page.run(inside, "blocks.2") == 1
        assert page.run(inside, "blocks.3") == 0


def test_keys(page):
    from selenium.webdriver import Keys

    page.press("/")
    assert page.run("return document.activeElement.id") == "search"
    page.press("mm")
    assert page.text("#found") != ""
    page.press(Keys.ESCAPE)
    assert page.text("#found") == "" and page.run("return search.value") == ""
    for key, expected in ((Keys.ARROW_RIGHT, 0), (Keys.ARROW_DOWN, 1), (Keys.ARROW_RIGHT, 2)):
        page.press(key)
        assert page.selected == expected
    page.press(Keys.ARROW_LEFT)
    assert page.selected == 1
    page.press(Keys.END)
    assert page.selected == page.run("return tapePage.tape.count") - 1
    page.press(Keys.ARROW_RIGHT)
    assert page.selected == page.run("return tapePage.tape.count") - 1
    for key, tab in (("2", "bytes"), ("3", "table"), ("1", "graph")):
        page.press(key)
        assert page.run("return tapePage.tab") == tab
    page.press(Keys.ESCAPE)
    assert page.selected == -1


# ---- the graph


class TestGraph:
    def test_modules_open_and_close(self, page):
        assert "blocks.3" in page.boxes()
        before = len(page.boxes())
        page.click_box("blocks.3")
        opened = page.boxes()
        assert {"blocks.3.attn", "blocks.3.mlp", "blocks.3.ln1"} <= opened.keys()
        assert "blocks.3" in page.text("#detail h2") and "Close" in page.text("#detail .actions")
        page.click_box("blocks.3")  # its title
        assert len(page.boxes()) == before
        page.click("#collapse")
        assert "blocks" in page.boxes() and "blocks.3" not in page.boxes()
        page.click("#expand")
        assert "blocks.3" in page.boxes()

    def test_a_click_selects(self, page, large):
        name = next(e["index"] for e in large["entries"] if e["op"] == "embedding")
        page.click_box(name)
        assert page.selected == name
        assert page.text("#detail h2") == f"embedding #{name}"

    def test_the_entry_under_the_cursor(self, page, large):
        name = next(e["index"] for e in large["entries"] if e["op"] == "embedding")
        x, y, width, height = page.boxes()[str(name)]
        page.move("#graph", x + width / 2, y + height / 2)
        assert page.text("#detail h2") == f"embedding #{name}" and page.selected == -1
        page.move("#graph", 4, 4)
        assert page.text("#detail h2") == "The whole tape"

    def test_zoom_and_move(self, page):
        from selenium.webdriver import ActionChains

        graph = page.driver.find_element("id", "graph")
        for button, wider in (("#in", True), ("#out", False)):
            before = page.boxes()["blocks.3"][2]
            page.click(button)
            assert (page.boxes()["blocks.3"][2] > before) is wider
        page.click("#fit")
        x, y, width, _ = page.boxes()["blocks.3"]
        ActionChains(page.driver, duration=0).click_and_hold(graph).move_by_offset(
            60, 40
        ).release().perform()
        page.flush()
        moved = page.boxes()["blocks.3"]
        assert moved[0] - x == pytest.approx(60, abs=1) and moved[1] - y == pytest.approx(40, abs=1)
        place = [round(moved[0]), round(moved[1])]
        page.run(
            "const [x, y] = arguments[0]; const box = graph.getBoundingClientRect();"
            "graph.dispatchEvent(new WheelEvent('wheel', {deltaY: -100, cancelable: true,"
            " clientX: box.x + x, clientY: box.y + y}))",
            place,
        )
        page.flush()
        zoomed = page.boxes()["blocks.3"]
        assert zoomed[2] > width and zoomed[0] == pytest.approx(place[0], abs=2)

    def test_leaves_are_shown_on_request(self, page, large):
        leaf = next(e["index"] for e in large["entries"] if e["leaf"] == "wte.weight")
        assert str(leaf) not in page.boxes()
        page.click("#leaves")
        assert str(leaf) in page.boxes()

    def test_folded_by_order(self, page, large):
        page.run("fold.value = 'order'; fold.dispatchEvent(new Event('change'))")
        page.flush()
        first, *_, last = page.run(
            "return tapePage.modules.root.children.map(({ name, count }) => [name, count])"
        )
        assert first == ["#0 – #59", 60]  # noqa: RUF001
        assert last[0].endswith(f"#{len(large['entries']) - 1}")
        page.search("op:gelu")
        groups = "return tapePage.modules.root.children.map((g) => tapePage.matchesIn(g))"
        assert sum(page.run(groups)) == sum(e["op"] == "gelu" for e in large["entries"])
        page.run("fold.value = 'module'; fold.dispatchEvent(new Event('change'))")
        page.flush()
        assert "blocks.3" in page.boxes()

    def test_show_in_graph_opens_what_hides_an_entry(self, page, large):
        name = next(
            e["index"]
            for e in large["entries"]
            if e["module"] == "blocks.20.mlp.up" and e["op"] == "mm"
        )
        page.run("tapePage.open('table'); tapePage.select(arguments[0])", name)
        page.flush()
        page.click("#detail .actions button")
        x, y, *_ = page.boxes()[str(name)]
        assert 0 < x < 1000 and 0 < y < 620


GEOMETRY = """
const { graph } = tapePage.views, { made } = graph, { modules } = tapePage;
const boxes = {}, edges = [];
for (const [id, box] of made.boxes) boxes[id] = [box.x, box.y, box.width, box.height];
const idOf = (item) => typeof item === "number" ? item : item.id;
for (const { from, to, back, points } of made.edges)
  edges.push([idOf(from), idOf(to), back, points]);
const groups = modules.groups.filter((g) => g.open).map((g) => [g.id, g.children.map(idOf)]);
return { boxes, edges, groups };
"""


@pytest.mark.parametrize("name", ["small", "gpt", "random", "flat"])
def test_boxes_nest_and_do_not_overlap(open_page, name):
    document = {
        "small": small,
        "gpt": lambda: gpt(3),
        "random": lambda: random_graph(300, modules=15, seed=7),
        "flat": lambda: random_graph(1_000, seed=8),
    }[name]()
    page = open_page(document)
    page.run(
        "tapePage.modules.groups.forEach((g) => { g.open = true }); tapePage.views.graph.layout()"
    )
    found = page.run(GEOMETRY)
    boxes = {int(key): box for key, box in found["boxes"].items()}
    for group, children in found["groups"]:
        gx, gy, gw, gh = boxes[group]
        inside = sorted(boxes[child] for child in children if child in boxes)
        for x, y, w, h in inside:
            assert gx <= x and gy <= y and x + w <= gx + gw + 0.01 and y + h <= gy + gh + 0.01
        for number, (x, y, w, h) in enumerate(inside):
            for ox, oy, _, oh in inside[number + 1 :]:
                if ox >= x + w - 0.01:
                    break  # sorted: all further ones lie right of it
                assert oy >= y + h - 0.01 or oy + oh <= y + 0.01, "two boxes overlap"
    shown = {e["index"] for e in document["entries"] if e["index"] in boxes}
    wanted = {
        (producer, e["index"])
        for e in document["entries"]
        for producer, _ in e["inputs"]
        if producer in shown and e["index"] in shown
    }
    assert {(a, b) for a, b, _, _ in found["edges"]} == wanted
    for a, b, back, points in found["edges"]:
        (ax, ay, aw, ah), (bx, by, bw, bh) = boxes[a], boxes[b]
        assert points[0] == pytest.approx(ax + aw / 2) and points[-2] == pytest.approx(bx + bw / 2)
        assert points[1] == pytest.approx(ay) or points[1] == pytest.approx(ay + ah)
        assert points[-1] == pytest.approx(by) or points[-1] == pytest.approx(by + bh)
        assert back or points[-1] == pytest.approx(by)


def steps(count):
    """Return the documents of training steps; the leaves are those of the first."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 4),
        torch.nn.ReLU(),
        torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(4, 4)),
        torch.nn.Linear(4, 1),
    )
    documents = []
    for _ in range(count):
        with tape.record(model) as t:
            loss = model(torch.ones(2, 4)).square().mean()
        documents.append(t.to_dict())
        loss.backward()
    return documents


def test_a_later_step_is_laid_out_as_the_first(open_page):
    """Its leaves have older numbers than all else, and do not decide where modules stand."""
    first, second = steps(2)
    assert [e["leaf"] is None for e in first["entries"][:2]] == [False, True]
    assert [e["leaf"] is None for e in second["entries"][:2]] == [False, False]
    found = []
    for document in (first, second):
        page = open_page(document)
        page.click("#leaves")
        page.run(
            "tapePage.modules.groups.forEach((g) => { g.open = true });"
            "tapePage.views.graph.layout()"
        )
        made = page.run(GEOMETRY)
        assert made["edges"] and not [edge for edge in made["edges"] if edge[2]], "an edge goes up"
        names = "return tapePage.modules.groups.map((group) => [group.path, group.id])"
        found.append({path: made["boxes"][str(group)] for path, group in page.run(names)})
    assert found[0] == found[1]
    tops = [found[0][path][1] for path in ("0", "1", "2.0", "2.1", "3")]
    assert tops == sorted(set(tops))


# ---- timeline, bytes, table, detail


def test_the_timeline_selects(open_page):
    document = small()
    page = open_page(document)
    steps = 2 * len(document["entries"])
    left, wide = page.run("const t = tapePage.views.timeline; return [t.xOf(0), t.wide]")
    for step in (2, 5, 9):
        page.move("#timeline", left + wide * (step + 0.5) / steps, 70, click=True)
        entry = step if step < 7 else 13 - step
        assert page.selected == entry
        assert page.text("#detail h2").endswith(f"#{entry}")
        assert page.run("return timeline.getAttribute('aria-valuenow')") == str(entry)


@pytest.mark.parametrize("by", ["module", "line", "op"])
def test_areas_are_bytes(open_page, by):
    b = Builder("siblings")
    for size in (100, 3, 90, 75, 0, 60, 50, 40):
        value = b.value([size, 256])
        b.op("exp", [], [[1]], save=[("result", "value", value)], line="a.py:3, in f", module="net")
    page = open_page(b.document())
    page.click("#tab-bytes")
    page.click(f"[data-by={by}]")
    rects = page.run(
        "return tapePage.views.bytes.rects.map(({node, x, y, w, h}) => [node.entry, x, y, w, h])"
    )
    paying = {entry["index"]: entry["bytes"] for entry in b.entries if entry["bytes"]}
    assert sorted(rect[0] for rect in rects) == sorted(paying) and len(paying) == 7
    areas = {entry: w * h for entry, _, _, w, h in rects}
    for entry, size in paying.items():
        assert areas[entry] / areas[0] == pytest.approx(size / paying[0], rel=1e-6)
    for entry, x, y, w, h in rects:
        for other, ox, oy, ow, oh in rects:
            apart = ox >= x + w - 1e-6 or x >= ox + ow - 1e-6 or oy >= y + h - 1e-6
            assert entry == other or apart or y >= oy + oh - 1e-6
    entry, x, y, w, h = rects[0]
    page.move("#bytes", x + w / 2, y + h / 2, click=True)
    assert page.selected == entry


def test_a_group_of_bytes_can_be_entered(page):
    page.click("#tab-bytes")
    x, y = page.run(
        "const { x, y } = tapePage.views.bytes.heads.find(({ node }) => node.name === '7');"
        "return [x + 9, y + 8]"
    )
    page.move("#bytes", x, y, click=True)
    assert page.text("#crumbs").startswith("all, by module / blocks / 7 · ")
    page.driver.find_elements("css selector", "#crumbs button")[0].click()
    page.flush()
    assert page.text("#crumbs").startswith("all, by module · ")


class TestTable:
    def test_it_sorts(self, page, large):
        page.click("#tab-table")
        page.click("[data-key=bytes]")
        order = page.run("return tapePage.views.table.order")
        expected = sorted(large["entries"], key=lambda e: (-e["bytes"], e["index"]))
        assert order == [e["index"] for e in expected]
        header = (
            "return document.querySelector('[data-key=bytes]').parentNode.getAttribute('aria-sort')"
        )
        assert page.run(header) == "descending"
        page.click("[data-key=bytes]")
        assert page.run(header) == "ascending"
        page.click("[data-key=op]")
        order = page.run("return tapePage.views.table.order")
        assert order == [e["index"] for e in sorted(large["entries"], key=lambda e: e["op"])]

    def test_up_and_down_go_by_its_order(self, page):
        from selenium.webdriver import Keys

        page.click("#tab-table")
        page.search("op:softmax")
        page.click("[data-key=backward]")
        order = page.run("return tapePage.views.table.order")
        for key, place in ((Keys.ARROW_DOWN, 0), (Keys.ARROW_DOWN, 1), (Keys.ARROW_DOWN, 2)):
            page.press(key)
            assert page.selected == order[place]
        page.press(Keys.ARROW_UP)
        assert page.selected == order[1]
        page.press(Keys.ARROW_RIGHT)
        assert page.selected == order[1] + 1

    def test_only_rows_in_sight_exist(self, open_page, huge):
        page = open_page(huge)
        page.click("#tab-table")
        rows = "return document.querySelectorAll('#table .row').length"
        assert 10 < page.run(rows) < 80
        page.run("table.scrollTop = table.scrollHeight")
        page.driver.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        )
        last = len(huge["entries"]) - 1
        assert page.run("return !!document.querySelector(`[data-entry='${arguments[0]}']`)", last)
        assert 10 < page.run(rows) < 80

    def test_a_click_selects(self, page):
        page.click("#tab-table")
        page.click("#table [data-entry='5']")
        assert page.selected == 5
        assert (
            page.run("return document.querySelector('.row[aria-selected=true]').dataset.entry")
            == "5"
        )


def test_the_details_of_an_entry(open_page):
    document = small()
    page = open_page(document)
    page.run("tapePage.select(4)")
    page.flush()
    shown = page.text("#detail")
    for part in (
        "MmBackward0 · sequence 1,008",
        "net.second",
        "step.py:4, in step",
        "y = h @ second",
        "float32[8, 2]",
        "an input of the op; shared, counted at #2",
        "a leaf's own memory, which lives anyway",
    ):
        assert part in shown
    entry = document["entries"][4]
    assert f"{entry['forward_us']:.2f} µs" in shown and f"{entry['backward_us']:.2f} µs" in shown
    links = page.run(
        "return [...document.querySelectorAll('#detail [data-to]')].map((b) => b.dataset.to)"
    )
    assert links == ["2", "2", "3", "5"]
    page.click("#detail [data-to='5']")
    assert page.text("#detail h2") == "exp #5"
    assert page.selected == 5


def test_values_that_are_gone(open_page):
    document = small()
    for state in ("packed", "dropped", "evicted"):
        value = {"name": state, "role": "value", "state": state, "bytes": 0, "storage": 0}
        value |= (
            {"shape": None, "dtype": None}
            if state != "evicted"
            else {"shape": [2], "dtype": "int8"}
        )
        document["entries"][6]["saved"].append(value)
    page = open_page(document)
    page.run("tapePage.select(6)")
    page.flush()
    shown = page.text("#detail")
    for part in (
        "packed by hooks",
        "a sweep has read it",
        "evicted, recomputed",
        "int8[2]",
        "unknown[]",
    ):
        assert part in shown


def test_the_whole_says_where_the_bytes_are(page, large):
    first = page.run("return document.querySelector('#detail .share').innerText").split("\n")[0]
    assert first == "blocks.*.attn"
    page.click("#detail .share")
    expected = [e for e in large["entries"] if re.match(r"blocks\.\d+\.attn", e["module"])]
    assert page.text("#found").startswith(f"{len(expected)} · ")


# ---- looks


def test_both_schemes_of_colours(open_page):
    found = {}
    for dark in (False, True):
        page = open_page(small(), dark=dark)
        colour = page.run("return getComputedStyle(document.body).backgroundColor")
        found[dark] = sum(map(int, re.findall(r"\d+", colour)[:3]))
    assert found[False] > 600 and found[True] < 150


@pytest.mark.parametrize("tab", ["graph", "bytes", "table"])
def test_a_narrow_window_needs_no_sideways_scrolling(open_page, large, tab):
    page = open_page(large, size=NARROW)
    page.run("tapePage.open(arguments[0]); tapePage.select(80)", tab)
    page.flush()
    width = page.run("return document.documentElement.scrollWidth")
    assert width <= NARROW[0]


def test_controls_have_names(page):
    page.click("#tab-graph")
    nameless = page.run(
        """
        const kinds = "button, input, canvas, [role=grid], section, nav, aside";
        return [...document.querySelectorAll(kinds)]
          .filter((e) => !(e.getAttribute("aria-label") || e.innerText.trim() || e.labels?.length))
          .filter((e) => !e.closest("[hidden]") && !e.matches("section.views"))
          .map((e) => e.outerHTML.slice(0, 80));
        """
    )
    assert nameless == []


def test_it_works_inside_a_frame_of_a_notebook(driver, tmp_path, large):
    from selenium.webdriver.support.ui import WebDriverWait

    from tapegrad.tape.magic import page_frame

    driver.get_log("browser")
    host = tmp_path / "notebook.html"
    text = f"<!DOCTYPE html><meta charset=utf-8><title>notebook</title>{page_frame(large, 500)}"
    host.write_text(text, encoding="utf-8")
    driver.get(host.as_uri())
    try:
        driver.switch_to.frame(driver.find_element("tag name", "iframe"))
        ready = "return Boolean(window.tapePage && tapePage.readyAfter)"
        WebDriverWait(driver, 60, 0.02).until(lambda d: d.execute_script(ready))
        page = Page(driver)
        assert page.text("#facts").startswith(f"{len(large['entries']):,} entries")
        assert page.search("op:gelu").startswith("27 · ")
        with pytest.raises(Exception, match=r"sandboxed|SecurityError|cross-origin"):
            page.run("return parent.document.title")
    finally:
        driver.switch_to.default_content()
    assert driver.get_log("browser") == []
