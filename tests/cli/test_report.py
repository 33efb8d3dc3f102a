"""The page and the picture: well-formed, self-contained, and true."""

import itertools
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from library import IS_TORCH

if not IS_TORCH:
    from tapegrad.cli.curve import draw_curve

VOID = {"meta", "br", "hr", "img", "input", "link"}
SVG = "{http://www.w3.org/2000/svg}"


class Reader(HTMLParser):
    """Checks that tags close in order; gathers the tags, their attributes and the text."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        self.text += data


def read(path):
    content = path.read_text(encoding="utf-8")
    reader = Reader()
    reader.feed(content)
    reader.close()
    assert not reader.open, f"not closed: {reader.open}"
    return reader, content


class TestPage:
    def test_stands_alone(self, train, folder):
        train("run", "--steps", "60")
        page, content = read(folder / "run" / "report.html")
        assert content.startswith("<!DOCTYPE html>")
        assert not {"script", "link", "img", "iframe"} & set(page.tags)
        assert not {"src", "href"} & {name for name, _ in page.attributes}
        assert "@import" not in content and "url(" not in content
        assert set(re.findall(r"https?://[^\"\s]+", content)) == {"http://www.w3.org/2000/svg"}

    def test_says_what_happened(self, train, folder):
        train("run", "--steps", "60", "--every", "5")
        page, content = read(folder / "run" / "report.html")
        assert "finished at step 60 of 60" in page.text
        assert "refresh" not in content
        for word in ("before training", "after 50 steps", "after 60 steps", "validation loss"):
            assert word in page.text
        for word in (
            "weight decay",
            "instruction set",
            "Python",
            "sample run",
            "--resume run",
            "query_key_value: Linear",
        ):
            assert word in page.text
        assert (folder / "run" / "curve.svg").read_text(encoding="utf-8") in content

    def test_asks_for_itself_again_while_the_run_goes_on(self, train, folder, monkeypatch):
        from tapegrad.cli import loop

        pages = []
        write = loop.write_report

        def write_and_keep(folder, *arguments, **options):
            write(folder, *arguments, **options)
            pages.append(folder.report.read_text(encoding="utf-8"))

        monkeypatch.setattr(loop, "write_report", write_and_keep)
        train("run")
        assert len(pages) == 5
        assert all('http-equiv="refresh"' in page for page in pages[:3])
        assert 'http-equiv="refresh"' not in pages[-1]

    def test_text_cannot_become_markup(self, command, folder):
        (folder / "<b>.txt").write_text("</pre><script>&\x07" * 200)
        status, _, errors = command(
            *("train", "--out", "run", "--steps", "2", "--layers", "1", "--width", "8"),
            *("--heads", "1", "--context", "8"),
            "--text",
            "<b>.txt",
        )
        assert status == 0, errors
        page, content = read(folder / "run" / "report.html")
        assert not {"script", "b>.txt"} & set(page.tags)
        assert "\x07" not in content


class TestCurve:
    RECORDS = (
        [{"step": 0, "val_loss": 4.0}]
        + [{"step": n, "loss": 4 - n / 100} for n in range(1, 101)]
        + [{"step": 100, "val_loss": 3.1}]
    )

    def points(self, svg, name):
        root = ElementTree.fromstring(svg)
        line = root.find(f"{SVG}polyline[@class='{name}']")
        return [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]

    def test_lines_follow_the_numbers(self):
        svg = draw_curve(self.RECORDS, last_step=100)
        for name in ("raw", "train"):
            points = self.points(svg, name)
            assert len(points) == 100
            assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(points))
        held = self.points(svg, "held")
        assert len(held) == 2
        assert held[1][0] == pytest.approx(840) and held[0][0] == pytest.approx(58)

    def test_everything_is_inside(self):
        svg = draw_curve(self.RECORDS, last_step=100)
        for name in ("raw", "train", "held"):
            for x, y in self.points(svg, name):
                assert 58 <= x <= 840 and 20 <= y <= 352

    @pytest.mark.parametrize(
        "records",
        [
            [],
            [{"step": 0, "val_loss": 2.0}],
            [{"step": 1, "loss": 0.0}],
            [{"step": 1, "loss": 1e-9}, {"step": 2, "loss": 1e9}],
        ],
    )
    def test_odd_runs_have_a_picture(self, records):
        ElementTree.fromstring(draw_curve(records, last_step=1))

    def test_a_long_run_stays_small(self):
        records = [{"step": n, "loss": 1 / n} for n in range(1, 50001)]
        svg = draw_curve(records, last_step=50000)
        assert len(svg) < 40000
        assert len(self.points(svg, "raw")) <= 700
