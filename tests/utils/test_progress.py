"""The progress line, on a terminal and elsewhere."""

import io
import re

import pytest
from library import IS_TORCH

if IS_TORCH:
    pytest.skip("PyTorch has no progress line", allow_module_level=True)

from tapegrad.utils import progress as module
from tapegrad.utils._units import clock, human_bytes, human_count
from tapegrad.utils.progress import Progress, memory_in_use, track


class Terminal(io.StringIO):
    """A terminal of a given encoding; `screen` is what a user would see in the end."""

    def __init__(self, encoding="utf-8"):
        super().__init__()
        self.name = encoding

    encoding = property(lambda self: self.name)

    def isatty(self):
        return True

    def screen(self):
        lines = [""]
        for part in re.split("(\r\x1b\\[K|\n)", self.getvalue()):
            if part == "\n":
                lines.append("")
            elif part == "\r\x1b[K":
                lines[-1] = ""
            else:
                lines[-1] += part
        return lines


@pytest.fixture
def time(monkeypatch):
    """Give a clock that the test sets."""

    class Clock:
        now = 100.0

        def monotonic(self):
            return self.now

    clock_of_test = Clock()
    monkeypatch.setattr(module, "time", clock_of_test)
    return clock_of_test


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")


class TestPlain:
    def test_lines_come_at_a_calm_pace(self, time):
        stream = io.StringIO()
        with Progress(100, stream=stream) as progress:
            for step in range(1, 101):
                time.now += 1
                progress.update(step, loss=f"{step / 10:.1f}")
        lines = stream.getvalue().splitlines()
        assert lines[0] == "step   1/100   loss 0.1   ETA 1:39"
        assert lines[1] == "step  11/100   loss 1.1   ETA 1:29"
        assert lines[-1] == "step 100/100   loss 10.0   ETA 0:00"
        assert len(lines) == 11

    def test_what_was_cut_short_shows_its_last_state(self, time):
        stream = io.StringIO()
        with Progress(100, stream=stream) as progress:
            for step in range(1, 4):
                time.now += 1
                progress.update(step)
        assert stream.getvalue().splitlines()[-1].startswith("step   3/100")

    def test_no_control_characters(self):
        stream = io.StringIO()
        with Progress(3, stream=stream, interval=0) as progress:
            progress.update(1)
            progress.write("a note")
            progress.update(2)
        assert stream.getvalue().splitlines()[1] == "a note"
        assert not re.search(r"[\r\x1b]", stream.getvalue())


class TestTerminal:
    @pytest.mark.usefixtures("wide")
    def test_one_line_that_is_drawn_over(self, time):
        stream = Terminal()
        with Progress(4, stream=stream) as progress:
            for step in range(1, 5):
                time.now += 1
                progress.update(step, val_loss="1.5")
        assert stream.getvalue().count("\n") == 1
        assert stream.screen() == ["━" * 30 + "  step 4/4   val loss 1.5   ETA 0:00", ""]

    @pytest.mark.usefixtures("wide")
    def test_notes_stand_above_the_bar(self, time):
        stream = Terminal()
        progress = Progress(2, stream=stream)
        progress.update(1)
        progress.write("a note\nof two lines")
        time.now += 1
        progress.update(2)
        progress.close()
        assert stream.screen()[:2] == ["a note", "of two lines"]
        assert stream.screen()[2].endswith("step 2/2   ETA 0:00")

    @pytest.mark.usefixtures("wide")
    def test_drawing_is_limited(self, time):
        stream = Terminal()
        with Progress(1000, stream=stream) as progress:
            for step in range(1, 1001):
                time.now += 0.001
                progress.update(step)
        assert 10 <= stream.getvalue().count("\r") <= 12

    @pytest.mark.usefixtures("wide")
    def test_an_encoding_without_lines(self):
        stream = Terminal("ascii")
        progress = Progress(2, stream=stream)
        progress.update(1)
        assert stream.screen()[0].startswith("#" * 15 + "." * 15)
        progress.close()

    @pytest.mark.parametrize("columns", [8, 20, 30, 60])
    def test_never_wider_than_the_terminal(self, monkeypatch, columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        stream = Terminal()
        progress = Progress(7, stream=stream)
        progress.update(1, loss="1.2345")
        assert len(stream.screen()[-1]) < columns
        progress.close()

    @pytest.mark.parametrize(
        ("columns", "shown"),
        [
            (64, "step 1/7   loss 1.25   speed 99 tok/s   norm 0.50   ETA 0:06"),
            (52, "step 1/7   loss 1.25   speed 99 tok/s   ETA 0:06"),
            (36, "step 1/7   loss 1.25   ETA 0:06"),
            (24, "step 1/7   ETA 0:06"),
        ],
    )
    def test_the_last_facts_go_first(self, monkeypatch, time, columns, shown):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("TERM", "xterm")
        stream = Terminal()
        progress = Progress(7, stream=stream)
        time.now += 1
        progress.update(1, loss="1.25", speed="99 tok/s", norm="0.50")
        assert stream.screen()[-1] == shown
        progress.close()

    def test_a_dumb_terminal_gets_lines(self, monkeypatch):
        monkeypatch.setenv("TERM", "dumb")
        assert not Progress(1, stream=Terminal()).live


class TestDelay:
    def test_what_is_over_soon_shows_nothing(self, time):
        stream = io.StringIO()
        with Progress(3, stream=stream, delay=1.0, interval=0) as progress:
            for step in range(1, 4):
                time.now += 0.3
                progress.update(step)
        assert stream.getvalue() == ""

    def test_what_takes_longer_is_shown_from_then_on(self, time):
        stream = io.StringIO()
        with Progress(4, stream=stream, delay=1.0, interval=0) as progress:
            for step in range(1, 5):
                time.now += 0.4
                progress.update(step)
        assert [line[:8] for line in stream.getvalue().splitlines()] == ["step 3/4", "step 4/4"]


class TestTime:
    def test_the_estimate_follows_the_present_pace(self, time):
        progress = Progress(1000, stream=io.StringIO(), disable=True)
        assert progress.remaining() is None
        for step in range(1, 101):
            time.now += 1
            progress.update(step)
        assert progress.remaining() == pytest.approx(900)
        for step in range(101, 201):
            time.now += 0.5
            progress.update(step)
        assert progress.remaining() == pytest.approx(400, rel=0.05)

    def test_preparations_are_not_part_of_the_pace(self, time):
        progress = Progress(100, stream=io.StringIO(), disable=True)
        time.now += 1000
        progress.update(0)
        time.now += 1
        progress.update(1)
        assert progress.remaining() == pytest.approx(99)

    def test_what_is_resumed_counts_from_there(self, time):
        progress = Progress(100, start=90, stream=io.StringIO(), disable=True)
        time.now += 2
        progress.update(91)
        assert progress.remaining() == pytest.approx(18)


class TestTrack:
    def test_yields_everything(self):
        stream = io.StringIO()
        assert list(track("abc", noun="letter", stream=stream, interval=0)) == ["a", "b", "c"]
        assert [line[:10] for line in stream.getvalue().splitlines()] == [
            "letter 1/3",
            "letter 2/3",
            "letter 3/3",
        ]

    def test_leaving_early_closes(self):
        stream = Terminal()
        for item in track(range(5), stream=stream):
            if item == 2:
                break
        assert stream.getvalue().endswith("\n")

    def test_an_iterator_needs_a_total(self):
        assert list(track(iter([1, 2]), total=2, disable=True)) == [1, 2]
        with pytest.raises(TypeError, match="len"):
            list(track(iter([1, 2]), disable=True))

    def test_disabled_is_silent(self):
        stream = Terminal()
        list(track([1, 2], stream=stream, disable=True))
        assert stream.getvalue() == ""


def test_memory_in_use_follows_an_allocation():
    before = memory_in_use()
    block = bytearray(b"x" * 50_000_000)
    assert memory_in_use() - before > 40_000_000
    del block


@pytest.mark.parametrize(
    ("function", "value", "words"),
    [
        (clock, 0, "0:00"),
        (clock, 59.6, "1:00"),
        (clock, 3599.4, "59:59"),
        (clock, 86400, "24:00:00"),
        (human_bytes, 1023, "1023 B"),
        (human_bytes, 1024, "1.00 KiB"),
        (human_bytes, 123456789, "118 MiB"),
        (human_bytes, 2**20 - 1, "1.00 MiB"),
        (human_bytes, 1023 * 1024, "1023 KiB"),
        (human_bytes, -1536, "-1.50 KiB"),
        (human_bytes, 3 << 29, "1.50 GiB"),
        (human_bytes, 2**50, "1.00 PiB"),
        (human_count, 999, "999"),
        (human_count, 9994, "9.99k"),
        (human_count, 999_600, "1.00M"),
        (human_count, 1.5e13, "15.0T"),
    ],
)
def test_units(function, value, words):
    assert function(value) == words
