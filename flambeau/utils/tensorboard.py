"""``SummaryWriter``: curves and texts for TensorBoard, written by the ``tensorboard`` package (``pip install tensorboard``)."""

from __future__ import annotations

import importlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Any

__all__ = ["SummaryWriter"]


def _library() -> list[Any]:
    names = ("compat.proto.event_pb2", "compat.proto.summary_pb2", "compat.proto.tensor_pb2", "summary.writer.event_file_writer")
    try:
        return [importlib.import_module(f"tensorboard.{name}") for name in names]
    except ImportError as error:
        raise ModuleNotFoundError("SummaryWriter needs the package tensorboard; install it with 'pip install tensorboard'.") from error


class SummaryWriter:
    """Writes an event file into ``log_dir``, by default ``runs/<time>_<host><comment>``. Values may be tensors of one element.

    What it cannot write (images, graphs, embeddings and the like) raises NotImplementedError.
    """

    def __init__(
        self, log_dir: str | os.PathLike[str] | None = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
        flush_secs: int = 120, filename_suffix: str = "",
    ) -> None:  # fmt: skip
        if log_dir is None:
            log_dir = os.path.join("runs", f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}")
        self._events, self._summaries, self._tensors, writer = _library()
        self.log_dir = os.fspath(log_dir)
        self._make = lambda folder: writer.EventFileWriter(folder, max_queue, flush_secs, filename_suffix)
        self._writers = {"": self._make(self.log_dir)}

    def add_scalar(
        self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None, new_style: bool = False,
        double_precision: bool = False,
    ) -> None:  # fmt: skip
        """One point of the curve ``tag``."""
        self._add("", self._summaries.Summary.Value(tag=tag, simple_value=float(scalar_value)), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: Mapping[str, Any], global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """A point of each of several curves in one chart; each gets an event file of its own."""
        for name, value in tag_scalar_dict.items():
            folder = f"{main_tag.replace('/', '_')}_{name}"
            self._add(folder, self._summaries.Summary.Value(tag=main_tag, simple_value=float(value)), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None) -> None:
        """A text in Markdown."""
        plugin = self._summaries.SummaryMetadata.PluginData(plugin_name="text", content=b"")
        tensor = self._tensors.TensorProto(dtype="DT_STRING", string_val=[text_string.encode()])
        tensor.tensor_shape.dim.add().size = 1
        value = self._summaries.Summary.Value(
            tag=f"{tag}/text_summary", metadata=self._summaries.SummaryMetadata(plugin_data=plugin), tensor=tensor
        )
        self._add("", value, global_step, walltime)

    def _add(self, folder: str, value: Any, step: int | None, walltime: float | None) -> None:
        if folder not in self._writers:
            self._writers[folder] = self._make(os.path.join(self.log_dir, folder))
        event = self._events.Event(wall_time=time.time() if walltime is None else walltime, step=0 if step is None else int(step))
        event.summary.value.append(value)
        self._writers[folder].add_event(event)

    def get_logdir(self) -> str:
        """The folder of the event file."""
        return self.log_dir

    def flush(self) -> None:
        """Write what is waiting."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Write what is waiting and close the files."""
        for writer in self._writers.values():
            writer.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("add_"):
            raise NotImplementedError(f"SummaryWriter.{name} is not there yet; add_scalar, add_scalars and add_text are")
        raise AttributeError(f"SummaryWriter has no attribute {name!r}")
