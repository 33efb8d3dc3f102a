"""`SummaryWriter`: PyTorch's methods over TensorBoard's event files."""

import os
import socket
import time
from datetime import datetime
from types import TracebackType
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from tapegrad.utils.tensorboard import figures, hparams, summaries

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Puts summaries into one event file.

    Args:
        log_dir: folder of the file.
        max_queue: events that may wait before the writing thread has to follow.
        flush_secs: seconds between two flushes.
        filename_suffix: put behind the file's name.
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        self._log_dir = str(log_dir)
        self.event_writer = EventFileWriter(self._log_dir, max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """Return the folder of the file."""
        return self._log_dir

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Write an event, with its step and the time at which it happened."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a summary."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Bring everything to the disk."""
        self.event_writer.flush()

    def close(self) -> None:
        """Flush and close."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Open a file again after `close`: the writer begins a new one."""
        self.event_writer = EventFileWriter(self._log_dir)


class SummaryWriter:
    """Writes what TensorBoard shows: curves, histograms, pictures, texts, hyperparameters.

    Args:
        log_dir: folder of the event files; ``runs/<date>_<host><comment>`` if None.
        comment: put behind the default folder's name.
        purge_step: a run that was restarted here; what was written from this step on is hidden.
        max_queue: events that may wait before the writing thread has to follow.
        flush_secs: seconds between two flushes.
        filename_suffix: put behind every file's name.

    Example:
        >>> import tempfile
        >>> from tapegrad.utils.tensorboard import SummaryWriter
        >>> with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as writer:
        ...     for step in range(100):
        ...         writer.add_scalar("loss", 1 / (step + 1), step)
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def __enter__(self) -> "SummaryWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def get_logdir(self) -> str:
        """Return the folder of the event files."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Add a number to a curve.

        Args:
            tag: name of the curve.
            scalar_value: a number or a tensor of one element.
            global_step: its place on the curve.
            walltime: seconds since the epoch; now if None.
            new_style: store it as a tensor, which loads faster.
            double_precision: of the tensor.
        """
        summary = summaries.scalar(tag, scalar_value, new_style, double_precision)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a number to each of several curves in one picture, by name."""
        walltime = time.time() if walltime is None else walltime
        base = self._get_file_writer().get_logdir()
        for tag, value in tag_scalar_dict.items():
            folder = f"{base}/{main_tag.replace('/', '_')}_{tag}"
            writer = self._writer_of(folder)
            writer.add_summary(summaries.scalar(main_tag, value), global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Add a tensor as it is."""
        summary = summaries.tensor(tag, tensor)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Add a histogram.

        Args:
            tag: name of the histogram.
            values: a tensor, an array or a list of numbers.
            global_step: its place in the row of histograms.
            bins: ``"tensorflow"``, whose bins grow by a tenth, or what `numpy.histogram` takes.
            walltime: seconds since the epoch; now if None.
            max_bins: how many bins to store at most.
        """
        summary = summaries.histogram(tag, values, bins, max_bins)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a histogram that was counted elsewhere; each limit is the right end of a bin."""
        summary = summaries.counted_histogram(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Add a picture: floats from 0 to 1, or bytes from 0 to 255.

        Args:
            tag: name of the picture.
            img_tensor: a tensor or an array.
            global_step: its place in the row of pictures.
            walltime: seconds since the epoch; now if None.
            dataformats: what the dimensions are: a permutation of CHW, or HW.
        """
        summary = summaries.image(tag, img_tensor, dataformats)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Add several pictures as one, in rows of up to eight."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Add a figure of matplotlib, or a list of figures.

        Args:
            tag: name of the picture.
            figure: one figure or several.
            global_step: its place in the row of pictures.
            close: whether to close the figure afterwards.
            walltime: seconds since the epoch; now if None.
        """
        if isinstance(figure, list):
            pictures = figures.pixels_of_all(figure, close)
            self.add_image(tag, pictures, global_step, walltime, dataformats="NCHW")
        else:
            picture = figures.pixels(figure, close)
            self.add_image(tag, picture, global_step, walltime, dataformats="CHW")

    def add_text(
        self,
        tag: str,
        text_string: str,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Add a text, shown as Markdown."""
        summary = summaries.text(tag, text_string)
        self._get_file_writer().add_summary(summary, global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Add a row to the table of hyperparameters.

        Args:
            hparam_dict: hyperparameters and their values: bool, str, int, float or None.
            metric_dict: what came out: names of curves and their last values.
            hparam_domain_discrete: all values that a hyperparameter can take, where it has few.
            run_name: folder of the row inside `log_dir`; a time stamp if None.
            global_step: of the metrics.
        """
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError(
                "add_hparams: expected hparam_dict and metric_dict to be dicts, got "
                f"{type(hparam_dict).__name__} and {type(metric_dict).__name__}"
            )
        described = hparams.summaries_of(hparam_dict, metric_dict, hparam_domain_discrete)
        name = str(time.time()) if run_name is None else run_name
        folder = os.path.join(self._get_file_writer().get_logdir(), name)
        with SummaryWriter(log_dir=folder) as row:
            for summary in described:
                row._get_file_writer().add_summary(summary, global_step)
            for tag, value in metric_dict.items():
                row.add_scalar(tag, value, global_step)

    def flush(self) -> None:
        """Bring everything to the disk."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Flush and close; a later call of an ``add`` method begins a new file."""
        for writer in (self.all_writers or {}).values():
            writer.close()
        self.file_writer = self.all_writers = None

    def _get_file_writer(self) -> FileWriter:
        """Return the writer of the main file, which is opened when it is first needed."""
        if self.file_writer is None:
            self.file_writer = self._writer_of(self.log_dir)
            if self.purge_step is not None:
                step, self.purge_step = self.purge_step, None
                self.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
                restart = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(step=step, session_log=restart))
        return self.file_writer

    def _writer_of(self, folder: str) -> FileWriter:
        """Return the writer of a folder, the same each time."""
        if self.all_writers is None:
            self.all_writers = {}
        if folder not in self.all_writers:
            self.all_writers[folder] = FileWriter(
                folder, self.max_queue, self.flush_secs, self.filename_suffix
            )
        return self.all_writers[folder]
