"""Numbers of a run for TensorBoard, on every backend."""

import importlib.util
import time


def tensorboard_is_installed():
    """Whether the package `tensorboard` is installed."""
    return importlib.util.find_spec("tensorboard") is not None


class TensorBoardLog:
    """Writes rows of numbers where TensorBoard finds them.

    Args:
        folder: the folder for `tensorboard --logdir`.
    """

    def __init__(self, folder):
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(folder))

    def write(self, step, values):
        """Write numbers by name at a step; None values are left out."""
        rows = [self._summary.Value(tag=name, simple_value=float(value)) for name, value in values.items() if value is not None]
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=rows)))
        self._writer.flush()

    def close(self):
        """Write what is buffered and close the file."""
        self._writer.close()
