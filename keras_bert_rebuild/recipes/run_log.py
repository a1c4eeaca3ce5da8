"""The rows of a run, sent to TensorBoard, MLflow or Weights & Biases as well."""

import importlib.util
import time
from pathlib import Path

from keras_bert_rebuild.files.limits import is_number


class RunLog:
    """Logs the rows of a run until the end of a `with` block.

    Args:
        log_to: a name in `LOGS`; None to do nothing.
        folder: the folder of the run, whose name is that of the run; TensorBoard and Weights & Biases write into it.
        settings: its resolved settings, plain values by name.
    """

    def __init__(self, log_to, folder, settings):
        self._arguments = Path(folder), settings
        self._make = LOGS.get(log_to)
        self._log = None

    @staticmethod
    def check(log_to):
        """Refuse a log whose package is not installed.

        Raises:
            ValueError: the error names the package.
        """
        if log_to is not None and importlib.util.find_spec(log_to) is None:
            raise ValueError(f"log_to {log_to} needs the package {log_to}: pip install {log_to}.")

    def __enter__(self):
        self._log = None if self._make is None else self._make(*self._arguments)
        return self

    def __exit__(self, *error):
        if self._log is not None:
            self._log.close()

    def write(self, row):
        """Log the numbers of a row, a dictionary with a `step`."""
        if self._log is not None:
            self._log.write(row["step"], {name: float(value) for name, value in row.items() if name != "step" and is_number(value)})


class TensorBoardLog:
    """Writes events into `tensorboard/` of the folder, for `tensorboard --logdir`."""

    def __init__(self, folder, settings):
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(folder / "tensorboard"))

    def write(self, step, values):
        """Write numbers by name at a step."""
        rows = [self._summary.Value(tag=name, simple_value=value) for name, value in values.items()]
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=rows)))
        self._writer.flush()

    def close(self):
        """Write what is buffered and close the file."""
        self._writer.close()


class MlflowLog:
    """Logs to MLflow: into the active run, or into one of its own, where MLFLOW_TRACKING_URI says."""

    def __init__(self, folder, settings):
        import mlflow

        self._mlflow, self._ends = mlflow, mlflow.active_run() is None
        if self._ends:
            mlflow.start_run(run_name=folder.name)
        mlflow.log_params(settings)

    def write(self, step, values):
        """Log numbers by name at a step."""
        self._mlflow.log_metrics(values, step=step)

    def close(self):
        """End the run, if it is ours."""
        if self._ends:
            self._mlflow.end_run()


class WandbLog:
    """Logs to Weights & Biases, as its environment variables say."""

    def __init__(self, folder, settings):
        import wandb

        self._run = wandb.init(name=folder.name, dir=str(folder), config=settings)

    def write(self, step, values):
        """Log numbers by name at a step."""
        self._run.log(values, step=step)

    def close(self):
        """End the run."""
        self._run.finish()


# By the names of their packages.
LOGS = {"tensorboard": TensorBoardLog, "mlflow": MlflowLog, "wandb": WandbLog}
