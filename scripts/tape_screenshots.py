"""Draw the pictures of docs/tape/show.md anew: python scripts/tape_screenshots.py

They are pages of a real tape, a GPT's, in Chromium. Needs selenium, chromium and chromedriver.
"""

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import tapegrad as torch  # noqa: E402
from tapegrad import nn, tape  # noqa: E402
from tapegrad.nn import functional as F  # noqa: E402
from tapegrad.tape.last_backward import LastBackward  # noqa: E402
from tapegrad.tape.show import write_html  # noqa: E402

IMAGES = ROOT / "docs" / "tape" / "images"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        batch, time, width = x.shape
        shape = (batch, time, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        scores = q @ k.transpose(-2, -1) * shape[-1] ** -0.5
        hidden = torch.ones(time, time, dtype=torch.bool).triu(1)
        weights = self.drop(scores.masked_fill(hidden, -torch.inf).softmax(-1))
        return self.out((weights @ v).transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.ln2, self.up = nn.LayerNorm(width), nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, vocabulary=256, context=128, layers=12, width=192, heads=6):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.place = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def document_of_a_step():
    """Return the tape of one training step, as `tapegrad tape` would describe it."""
    torch.manual_seed(0)
    model = GPT()
    tokens = torch.randint(0, 256, (8, 128))
    targets = torch.randint(0, 256, (8, 128))
    with LastBackward() as last, tape.record():
        loss = F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
    return last.document | {"title": "a step of a GPT of 12 layers"}


# Each picture: its name, dark or not, and what is done on the page before it is taken.
PICTURES = {
    "graph": (
        False,
        """
        const { graph } = app.views, block = app.modules.byPath.get("blocks.1");
        graph.toggle(block);
        graph.view.scale = 0.8;
        const is = (i, column, text) => app.tape.text(column, i).includes(text);
        app.showInGraph(app.tape.op.findIndex((_, i) =>
          is(i, "op", "softmax") && is(i, "module", "blocks.1.attn")));
        """,
    ),
    "bytes": (True, "app.open('bytes')"),
    "entries": (False, "app.search('>1MiB'); app.open('table'); app.views.table.sortBy('bytes')"),
}


def main():
    from selenium import webdriver
    from selenium.webdriver.support.ui import WebDriverWait

    ready = "return Boolean(window.tapePage && tapePage.readyAfter)"
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in (*FLAGS, f"--user-data-dir={tempfile.mkdtemp()}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    screen = {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    try:
        with tempfile.TemporaryDirectory() as folder:
            page = write_html(document_of_a_step(), Path(folder) / "page.html")
            for name, (dark, script) in PICTURES.items():
                scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
                driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
                driver.get(page.as_uri())
                WebDriverWait(driver, 30, 0.05).until(lambda d: d.execute_script(ready))
                driver.execute_script(f"const app = tapePage; {script}; app.flush()")
                driver.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0]))")
                driver.save_screenshot(str(IMAGES / f"{name}.png"))
    finally:
        driver.quit()


if __name__ == "__main__":
    main()
