"""The page of a compiled function, in a browser."""

import os
import re
import shutil

import pytest
from library import IS_SANITIZED, IS_TORCH, torch

if IS_TORCH:
    pytest.skip("the page is tapegrad's own", allow_module_level=True)
if IS_SANITIZED:
    pytest.skip("a browser does not start with the sanitizers' runtime", allow_module_level=True)

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
)
SCRIPT = "</script><script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"


def explained(function, *arguments):
    compiled = torch.compile(function)
    for given in arguments:
        for _ in range(3):
            compiled(given)
    told = torch.compiler.explain(compiled)
    assert len(told.traces) == len(arguments)
    return told


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
    options.add_argument("--window-size=1400,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(DRIVER, log_output=os.devnull)
    )
    yield found
    found.quit()


@pytest.fixture
def open_page(driver, tmp_path):
    """Give a function that writes and opens a page; errors in it fail the test."""
    from selenium.webdriver.support.ui import WebDriverWait

    def open_(told, **options):
        driver.get(told.html(tmp_path / "page.html", **options).as_uri())
        ready = "return Boolean(window.compilePage)"
        WebDriverWait(driver, 60, 0.02).until(lambda d: d.execute_script(ready))
        return driver

    driver.get_log("browser")
    yield open_
    assert driver.get_log("browser") == []


def text(driver, selector):
    return driver.execute_script("return document.querySelector(arguments[0]).innerText", selector)


def test_it_refers_to_nothing_outside(tmp_path):
    page = explained(lambda x: x.sin(), torch.ones(2)).html(tmp_path / "page.html").read_text()
    outside = r"https?://|url\(|@import|src=|<link(?! rel=\"icon\" href=\"data:,\")"
    assert re.findall(outside, page) == []
    assert "default-src 'none'" in page


def test_a_program_with_a_group(open_page):
    driver = open_page(explained(lambda x: x.sin().cos().exp().sum(), torch.ones(1 << 17)))
    assert text(driver, "#facts").startswith("1 trace, 4 calls of")
    grouped = driver.find_elements("css selector", ".row[data-group='0']")
    assert [row.text.split()[1] for row in grouped] == ["sin", "cos", "exp"]
    assert "float32[131072]" in grouped[0].text
    driver.find_element("id", "tab-before").click()
    assert driver.find_elements("css selector", ".row[data-group]") == []
    assert driver.find_elements("css selector", ".row") != []


def test_several_traces_and_guards(open_page):
    told = explained(lambda x: x * 2 if x.sum().item() > 0 else x, torch.ones(2), torch.ones(3))
    driver = open_page(told)
    assert "2.0, at" in text(driver, "#detail")
    driver.find_element("css selector", "#trace option[value='1']").click()
    assert "3.0, at" in text(driver, "#detail")
    assert "argument 0 was float32[2]" in text(driver, "#detail")


def test_times_are_shown_when_asked_for(open_page):
    told = explained(lambda x: x.sin().sum(), torch.ones(8))
    assert "Time" not in text(open_page(told), ".names")
    driver = open_page(told, times=True)
    assert "Time" in text(driver, ".names")
    assert "one by one" in text(driver, "#detail")


def test_a_long_program_has_few_rows(open_page):
    def long(x):
        for _ in range(3000):
            x = x.sin()
        return x

    driver = open_page(explained(long, torch.ones(2)))
    assert text(driver, "#rows") == "3,000 steps"
    assert 0 < len(driver.find_elements("css selector", ".row")) < 100
    driver.execute_script("document.getElementById('table').scrollTop = 1e9")
    driver.execute_script("compilePage.drawRows()")
    assert "2999" in text(driver, "#table")


def test_markup_in_texts_is_harmless(open_page):
    told = explained(lambda x: x.sin(), torch.ones(2))
    told.name = SCRIPT
    told.reasons.append(SCRIPT)
    call = told.traces[0].after[0]
    told.traces[0].after[0] = call._replace(line=f"{SCRIPT}:3", attributes=[SCRIPT], op=SCRIPT)
    driver = open_page(told)
    assert driver.execute_script("return window.broken === undefined")
    assert driver.execute_script("return document.images.length") == 0
    assert text(driver, "#title") == SCRIPT and SCRIPT in text(driver, "#table")


def test_nothing_captured_yet(open_page):
    driver = open_page(torch.compiler.explain(torch.compile(lambda x: x)))
    assert text(driver, "#facts") == "0 traces" and "no trace yet" in text(driver, "#table")
