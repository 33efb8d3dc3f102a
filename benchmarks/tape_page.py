"""How fast the page of a tape opens and answers in Chromium: tape_page.py [--repeats N]

Pages of about 1,500 and 50,000 entries, of a GPT and of a random graph without modules. Times are
the page's own (performance.now), from the start of the navigation or from the action until the
frame with its result was painted; a frame alone takes up to 17 ms. Medians; the worst in brackets.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from tape.documents import gpt, random_graph  # noqa: E402

from tapegrad.tape.show import write_html  # noqa: E402

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1400,900"),
)
# Each is the body of a function of the page and the number of the repeat, k; it draws at once.
ACTIONS = {
    "search a word": "app.search(['relu', 'gelu', 'mm', 'add'][k % 4])",
    "search by size": "app.search(['>1KiB', '>1MiB'][k % 2])",
    "clear the search": "app.search('')",
    "select an entry": "app.select((k * 7919) % app.tape.count)",
    "zoom the graph": "app.views.graph.zoom(k % 2 ? 0.8 : 1.3)",
    "whole graph": "app.views.graph.fit()",
    "open a module": "app.views.graph.toggle(app.modules.visibleClosed()[0])",
    "show an entry in the graph": "app.showInGraph((k * 7919) % app.tape.count)",
    "zoom the timeline": "app.views.timeline.zoom(k % 2 ? 1.5 : 0.5, 600)",
    "hover on the timeline": "app.setHover(app.views.timeline.heaviestAt(200 + 40 * k))",
    "first map of bytes": "app.open('bytes')",
    "bytes by line, module": "app.views.bytes.choose(['line', 'module'][k % 2])",
    "hover on the bytes": "app.setHover((k * 7919) % app.tape.count)",
    "first table": "app.open('table')",
    "sort the table": "app.views.table.sortBy(['bytes', 'line'][k % 2])",
}
# Calls back when the next frame is on its way to the screen.
PAINTED = """
const done = arguments[arguments.length - 1];
const painted = (then) => requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = then;
  channel.port2.postMessage(0);
});
"""


def start_browser() -> Any:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in (*FLAGS, f"--user-data-dir={tempfile.mkdtemp()}"):
        options.add_argument(flag)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    return webdriver.Chrome(options=options, service=service)


def time_to_open(driver: Any, path: Path) -> float:
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get("about:blank")
    driver.get(path.as_uri())
    ready = "return Boolean(window.tapePage && tapePage.readyAfter)"
    WebDriverWait(driver, 120, 0.002).until(lambda d: d.execute_script(ready))
    return float(driver.execute_async_script(PAINTED + "painted(() => done(performance.now()))"))


def time_action(driver: Any, action: str, repeats: int) -> list[float]:
    script = f"""
        {PAINTED}
        const app = tapePage, times = [];
        const act = (k) => {{
          if (k === {repeats}) return done(times);
          const before = performance.now();
          {action};
          app.flush();
          painted(() => {{
            times.push(performance.now() - before);
            act(k + 1);
          }});
        }};
        act(0);
    """
    times: list[float] = driver.execute_async_script(script)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    documents = {
        "GPT, 1,472 entries": gpt(27),
        "GPT, 49,964 entries": gpt(925),
        "no modules, 50,000 entries": random_graph(50_000),
    }
    driver = start_browser()
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, document in documents.items():
                path = write_html(document, Path(folder) / "page.html")
                print(f"\n{name} ({len(document['entries'])}): {path.stat().st_size / 1e3:.0f} kB")
                row("open", [time_to_open(driver, path) for _ in range(repeats)])
                for action, code in ACTIONS.items():
                    once = action.startswith("first")
                    row(action, time_action(driver, code, 1 if once else repeats))
    finally:
        driver.quit()


def row(name: str, times: list[float]) -> None:
    print(f"  {name:<28} {statistics.median(times):7.1f} ms   ({max(times):.1f})")


if __name__ == "__main__":
    main()
