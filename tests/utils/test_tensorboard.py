"""`SummaryWriter`: the events of tapegrad and of PyTorch are read back and compared."""

import importlib
import re
import subprocess
import sys

import numpy as np
import pytest
from library import IS_TORCH, pytorch_for_parity

pytest.importorskip("tensorboard", reason="tensorboard is not installed; tapegrad[tensorboard]")

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.util.tensor_util import make_ndarray


@pytest.fixture(params=["tapegrad", "torch"])
def torch(request):
    """Give the library whose writer is under test."""
    if request.param == "tapegrad":
        if IS_TORCH:
            pytest.skip("this run is of PyTorch alone")
        return importlib.import_module("tapegrad")
    library, reason = pytorch_for_parity()
    if library is None:
        pytest.skip(reason)
    return library


@pytest.fixture
def Writer(torch):
    return importlib.import_module(f"{torch.__name__}.utils.tensorboard").SummaryWriter


def events(folder):
    """Return all events of a folder's files, in order."""
    files = sorted(folder.glob("events.out.tfevents.*"))
    assert files
    return [event for file in files for event in EventFileLoader(str(file)).Load()]


def values(folder):
    """Return (step, value) of every summary value in a folder."""
    return [(event.step, value) for event in events(folder) for value in event.summary.value]


def read(folder):
    return EventAccumulator(str(folder), size_guidance={"tensors": 0}).Reload()


class TestScalars:
    def test_numbers_and_tensors(self, torch, Writer, tmp_path):
        with Writer(str(tmp_path)) as writer:
            writer.add_scalar("loss", 0.5, 1)
            writer.add_scalar("loss", torch.tensor(0.25, requires_grad=True), 2)
            writer.add_scalar("loss", np.float64(0.125), global_step=3, walltime=1000.0)
            writer.add_scalar("loss", torch.tensor([[2]]), 4)
            writer.add_scalar("half", torch.tensor(1.5, dtype=torch.bfloat16))
        found = read(tmp_path)
        loss = found.Scalars("loss")
        assert [(event.step, event.value) for event in loss] == [
            (1, 0.5),
            (2, 0.25),
            (3, 0.125),
            (4, 2.0),
        ]
        assert loss[2].wall_time == 1000.0 and loss[0].wall_time > 1e9
        assert found.Scalars("half")[0].value == 1.5

    def test_new_style(self, Writer, tmp_path):
        with Writer(str(tmp_path)) as writer:
            writer.add_scalar("x", 0.1, 1, new_style=True)
            writer.add_scalar("y", 0.1, 1, new_style=True, double_precision=True)
        found = {value.tag: value for _, value in values(tmp_path)}
        assert found["x"].metadata.plugin_data.plugin_name == "scalars"
        assert make_ndarray(found["x"].tensor).dtype == np.float32
        assert make_ndarray(found["y"].tensor) == np.float64(0.1)

    def test_several_numbers_are_refused(self, torch, Writer, tmp_path):
        with Writer(str(tmp_path)) as writer, pytest.raises(AssertionError):
            writer.add_scalar("x", torch.ones(2), 1)

    def test_several_curves(self, Writer, tmp_path):
        with Writer(str(tmp_path)) as writer:
            for step in range(3):
                writer.add_scalars("a/b", {"sine": step / 2, "cosine": -step}, step)
        assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {
            "a_b_sine",
            "a_b_cosine",
        }
        curve = read(tmp_path / "a_b_cosine").Scalars("a/b")
        assert [(event.step, event.value) for event in curve] == [(0, 0), (1, -1), (2, -2)]


def histogram_of(Writer, folder, values_, **options):
    with Writer(str(folder)) as writer:
        writer.add_histogram("h", values_, 3, **options)
    ((step, value),) = [pair for pair in raw_values(folder) if pair[1].tag == "h"]
    assert step == 3
    return value.histo


def raw_values(folder):
    """Return values as they were written: the loader above turns histograms into tensors."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader

    files = sorted(folder.glob("events.out.tfevents.*"))
    loaded = [event for file in files for event in LegacyEventFileLoader(str(file)).Load()]
    return [(event.step, value) for event in loaded for value in event.summary.value]


class TestHistograms:
    @pytest.mark.parametrize(
        "options", [{}, {"bins": 5}, {"bins": "auto"}, {"bins": 50, "max_bins": 7}]
    )
    def test_statistics_and_counts(self, torch, Writer, tmp_path, options):
        data = np.random.default_rng(0).normal(size=1000)
        histogram = histogram_of(Writer, tmp_path, torch.tensor(data), **options)
        assert histogram.num == 1000
        assert histogram.min == data.min() and histogram.max == data.max()
        assert histogram.sum == pytest.approx(data.sum())
        assert histogram.sum_squares == pytest.approx((data**2).sum())
        assert sum(histogram.bucket) == 1000
        limits = list(histogram.bucket_limit)
        assert limits == sorted(limits) and len(limits) == len(histogram.bucket)
        below = np.cumsum(histogram.bucket)
        for limit, count in zip(limits[:-1], below[:-1], strict=True):
            assert abs((data < limit).sum() - count) <= 1
        assert len(limits) <= options.get("max_bins", 1000) + 2

    def test_what_has_no_histogram(self, torch, Writer, tmp_path):
        with Writer(str(tmp_path)) as writer:
            with pytest.raises(ValueError):
                writer.add_histogram("x", torch.ones(0))
            with pytest.raises(ValueError):
                writer.add_histogram("x", torch.tensor([1.0, torch.nan]), bins=3)

    def test_counted_elsewhere(self, Writer, tmp_path):
        with Writer(str(tmp_path)) as writer:
            writer.add_histogram_raw("h", 0, 3, 4, 6, 14, [1.0, 2.0, 4.0], [1, 1, 2], 9)
        ((step, value),) = raw_values(tmp_path)
        assert step == 9 and list(value.histo.bucket) == [1, 1, 2] and value.histo.sum == 6


def picture(folder):
    """Return the pixels of the only picture in a folder."""
    import io

    from PIL import Image

    ((_, value),) = [pair for pair in raw_values(folder) if pair[1].HasField("image")]
    pixels = np.asarray(Image.open(io.BytesIO(value.image.encoded_image_string)))
    assert (value.image.height, value.image.width) == pixels.shape[:2]
    assert value.image.colorspace == (pixels.shape[2] if pixels.ndim == 3 else 1)
    return pixels


class TestPictures:
    BYTES = np.random.default_rng(1).integers(0, 256, (3, 4, 5), dtype=np.uint8)

    def test_bytes(self, torch, Writer, tmp_path):
        with Writer(str(tmp_path)) as writer:
            writer.add_image("x", torch.tensor(self.BYTES), 1)
        assert np.array_equal(picture(tmp_path), self.BYTES.transpose(1, 2, 0))

    def test_floats(self, torch, Writer, tmp_path):
        floats = torch.tensor([[0.0, 0.5, 1.0, 2.0, -1.0]])
        with Writer(str(tmp_path)) as writer:
            writer.add_image("x", floats, dataformats="HW")
        assert picture(tmp_path)[0, :, 0].tolist() == [0, 127, 255, 255, 0]
        assert picture(tmp_path).shape == (1, 5, 3)

    def test_orders_of_dimensions(self, Writer, tmp_path):
        with Writer(str(tmp_path / "a")) as writer:
            writer.add_image("x", self.BYTES.transpose(2, 0, 1), dataformats="WCH")
        assert np.array_equal(picture(tmp_path / "a"), self.BYTES.transpose(1, 2, 0))
        with Writer(str(tmp_path / "b")) as writer, pytest.raises(AssertionError):
            writer.add_image("x", self.BYTES, dataformats="NCHW")

    @pytest.mark.parametrize("count", [1, 3, 10])
    def test_a_grid(self, Writer, tmp_path, count):
        pictures = np.arange(count, dtype=np.uint8).reshape(-1, 1, 1, 1) + np.ones(
            (count, 3, 2, 2), np.uint8
        )
        with Writer(str(tmp_path)) as writer:
            writer.add_images("x", pictures)
        pixels = picture(tmp_path)
        rows, columns = -(-count // 8), min(count, 8)
        assert pixels.shape == (2 * rows, 2 * columns, 3)
        expected = np.zeros(rows * columns)
        expected[:count] = np.arange(count) + 1
        assert np.array_equal(pixels[::2, ::2, 0], expected.reshape(rows, columns))

    def test_figures(self, Writer, tmp_path):
        pyplot = pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not installed")
        for name, several in (("one", False), ("two", True)):
            figures = [pyplot.figure(figsize=(2, 1), dpi=50) for _ in range(2)]
            with Writer(str(tmp_path / name)) as writer:
                writer.add_figure("x", figures if several else figures[0])
            assert picture(tmp_path / name).shape == (50, 200 if several else 100, 3)
            assert len(pyplot.get_fignums()) == (0 if several else 1)
            pyplot.close("all")


class TestOthers:
    def test_text(self, Writer, tmp_path):
        with Writer(str(tmp_path)) as writer:
            writer.add_text("note", "**grün**", 7)
        ((step, value),) = values(tmp_path)
        assert step == 7 and value.tag == "note/text_summary"
        assert value.metadata.plugin_data.plugin_name == "text"
        assert make_ndarray(value.tensor).item() == "**grün**".encode()

    def test_tensors(self, torch, Writer, tmp_path):
        with Writer(str(tmp_path)) as writer:
            writer.add_tensor("t", torch.arange(6.0).view(2, 3), 2)
        ((_, value),) = values(tmp_path)
        assert make_ndarray(value.tensor).tolist() == [[0, 1, 2], [3, 4, 5]]

    def test_hyperparameters(self, torch, Writer, tmp_path):
        with Writer(str(tmp_path)) as writer:
            writer.add_hparams(
                {"lr": 0.1, "batch": 8, "name": "a", "size": torch.tensor([4])},
                {"accuracy": 0.5, "loss": torch.tensor(2.0)},
                {"name": ["a", "b"]},
                run_name="row",
                global_step=5,
            )
        found = [
            HParamsPluginData.FromString(value.metadata.plugin_data.content)
            for _, value in values(tmp_path / "row")
            if value.metadata.plugin_data.plugin_name == "hparams"
        ]
        experiment, start, end = found[0].experiment, found[1].session_start_info, found[2]
        hyper = dict(start.hparams)
        assert hyper["lr"].number_value == 0.1 and hyper["batch"].number_value == 8
        assert hyper["name"].string_value == "a" and hyper["size"].number_value == 4
        kinds = {info.name: info.type for info in experiment.hparam_infos}
        assert kinds == {"lr": 3, "batch": 3, "name": 1, "size": 3}
        (domain,) = [i.domain_discrete for i in experiment.hparam_infos if i.name == "name"]
        assert [value.string_value for value in domain.values] == ["a", "b"]
        assert [info.name.tag for info in experiment.metric_infos] == ["accuracy", "loss"]
        assert end.session_end_info.status == 1
        (loss,) = read(tmp_path / "row").Scalars("loss")
        assert (loss.step, loss.value) == (5, 2.0)

    @pytest.mark.skipif(IS_TORCH, reason="PyTorch writes 1.0 for True")
    def test_hyperparameters_that_are_true_or_false(self, tmp_path):
        from tapegrad.utils.tensorboard import SummaryWriter

        with SummaryWriter(tmp_path) as writer:
            writer.add_hparams({"tied": True, "none": None}, {}, run_name="row")
        data = [value.metadata.plugin_data.content for _, value in values(tmp_path / "row")]
        start = HParamsPluginData.FromString(data[1]).session_start_info
        assert list(start.hparams) == ["tied"] and start.hparams["tied"].bool_value is True

    def test_bad_hyperparameters(self, Writer, tmp_path):
        with Writer(str(tmp_path)) as writer:
            with pytest.raises(TypeError):
                writer.add_hparams([], {})
            with pytest.raises(ValueError):
                writer.add_hparams({"x": object()}, {})
            with pytest.raises(TypeError):
                writer.add_hparams({"x": 1}, {}, {"y": [1]})
        assert not [path for path in tmp_path.iterdir() if path.is_dir()]


class TestFiles:
    def test_the_default_folder(self, Writer, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        with Writer(comment="_note") as writer:
            assert re.fullmatch(
                r"runs/[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_.+_note", writer.get_logdir()
            )
            assert writer.log_dir == writer.get_logdir()
        assert len(list((tmp_path / writer.log_dir).iterdir())) == 1

    def test_flush_brings_events_to_the_disk(self, Writer, tmp_path):
        writer = Writer(str(tmp_path), flush_secs=1000, filename_suffix=".mine")
        writer.add_scalar("x", 1, 1)
        writer.flush()
        assert len(read(tmp_path).Scalars("x")) == 1
        writer.close()
        assert next(tmp_path.iterdir()).name.endswith(".mine")

    def test_writing_after_close_begins_a_new_file(self, Writer, tmp_path):
        writer = Writer(tmp_path, filename_suffix=".one")
        writer.add_scalar("x", 1, 1)
        writer.close()
        writer.filename_suffix = ".two"
        writer.add_scalar("x", 2, 2)
        writer.close()
        writer.close()
        assert len(list(tmp_path.iterdir())) == 2
        assert sorted(event.value for event in read(tmp_path).Scalars("x")) == [1, 2]

    def test_purge_hides_what_a_crashed_run_wrote(self, Writer, tmp_path):
        with Writer(tmp_path, filename_suffix=".1") as writer:
            for step in range(5):
                writer.add_scalar("x", 0, step)
        with Writer(tmp_path, purge_step=3, filename_suffix=".2") as writer:
            writer.add_scalar("x", 1, 3)
        found = read(tmp_path).Scalars("x")
        assert [(event.step, event.value) for event in found] == [(0, 0), (1, 0), (2, 0), (3, 1)]


@pytest.mark.skipif(IS_TORCH, reason="the message is tapegrad's own")
def test_without_tensorboard_the_error_says_what_to_install(tmp_path):
    script = (
        "import sys\n"
        "sys.modules['tensorboard'] = None\n"
        "try:\n"
        "    from tapegrad.utils.tensorboard import SummaryWriter\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "pip install 'tapegrad[tensorboard]'" in done.stdout
