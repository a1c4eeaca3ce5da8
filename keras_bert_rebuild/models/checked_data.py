"""Insert a host check between the data that a user passes to `fit` and the device, for every kind of data."""

import contextlib
import random
import types
import warnings
import weakref

import keras
import numpy as np

from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.kernels.asynchronous import ReadAhead, put_ahead
from keras_bert_rebuild.models.devices_in_use import check_even_batches, checking_even

# The methods of a `PyDataset` that run before and after an epoch.
HOOKS = ("on_epoch_begin", "on_epoch_end")


def checked(x, y, check, parts=1, batch_size=None, split=0.0):
    """Check the data for `fit` and similar methods: arrays now, anything else batch by batch.

    Args:
        x, y: as for `fit`.
        check: as for `checked_data`, a method.
        parts: number of devices, or groups of devices, that share a batch.
        batch_size, split: as for `check_even_batches`.

    Returns:
        The values to use instead of `x` and `y`.
    """
    if not is_arrays(x):
        # TensorFlow never drops the functions of a pipeline, which must not refer to the model.
        method = weakref.WeakMethod(check)
        return checked_data(x, checking_even(parts, lambda batch: method()(batch))), y
    x, y = check((x, y))
    check_even_batches(parts, x, batch_size, split)
    return x, y


def is_arrays(x):
    """Whether these are arrays or nested lists, which can be checked as a whole."""
    return isinstance(x, (dict, np.ndarray, list, tuple)) or keras.ops.is_tensor(x)


def checked_data(data, check):
    """Data whose batches are all passed through `check`.

    Args:
        data: a `PyDataset`, a generator, a `tf.data.Dataset`, a torch `DataLoader` or arrays.
        check: a function of a batch, `x`, `(x,)`, `(x, y)` or `(x, y, sample_weight)`, that returns it or raises an error.

    Returns:
        Data of a kind that Keras accepts. Data of other kinds is returned unchecked, such as a dataset that a strategy has
        distributed or a `DataLoader` without a length.
    """
    if isinstance(data, keras.utils.PyDataset):
        return CheckedPyDataset(data, check)
    if isinstance(data, types.GeneratorType):
        return _checked_generator(data, check)
    kinds = {f"{cls.__module__}.{cls.__name__}" for cls in type(data).__mro__}
    if any(kind.startswith("tensorflow.") and kind.endswith(".DatasetV2") for kind in kinds):
        from keras_bert_rebuild.kernels.tensorflow_pipelines import checked_tf_dataset

        return checked_tf_dataset(data, check)
    if "torch.utils.data.dataloader.DataLoader" in kinds:
        return CheckedLoader(data, check) if hasattr(data.dataset, "__len__") else data
    return data


@contextlib.contextmanager
def ending_threads(*data):
    """A context at whose end the threads of data from `checked_data` end; after an error or interrupt it does not wait for them."""
    is_over = False
    try:
        yield
        is_over = True
    finally:
        for dataset in data:
            if isinstance(dataset, CheckedPyDataset):
                if is_over:
                    dataset.end_epoch()
                dataset.close(wait=is_over)


def begin_preview(data):
    """Tell a dataset that Keras may read its first batch before epochs begin, to build metrics.

    Args:
        data: data from `checked`.

    Returns:
        The dataset if it must be told, also when the preview ends; else None.
    """
    if not isinstance(data, CheckedPyDataset):
        return None
    data.in_preview = True
    return data


def in_epochs(data, arguments, parts):
    """The data in the form in which the backend reads whole epochs without waiting for threads of its own.

    Args:
        data: data from `checked`.
        arguments: the arguments of `fit`, `evaluate` or `predict` by name.
        parts: number of devices, or groups of devices, that share a batch.
    """
    in_another_way = parts > 1 or any(arguments.get(name) for name in ("shuffle", "steps_per_epoch", "steps", "class_weight"))
    if in_another_way or not isinstance(data, CheckedPyDataset) or not data.may_be_pipeline:
        return data
    first = [data[index] for index in range(min(2, data.num_batches))]
    if not all(isinstance(array, np.ndarray) and array.ndim and array.dtype.kind != "O" for array in keras.tree.flatten(first)):
        return data
    from keras_bert_rebuild.kernels.tensorflow_pipelines import epochs_of

    return epochs_of(data, first)


class CheckedPyDataset(keras.utils.PyDataset):
    """A `PyDataset` that wraps another one: the same length and epoch hooks, but batches are checked and prepared ahead.

    The `workers` of the wrapped dataset are hidden from Keras: on JAX and torch, batches that its threads read for a preview of the
    first one would stay in their queue, so that some batches are trained on twice and others never. Here these `workers`, if there
    are several, are threads that prepare and check up to `max_queue_size` batches ahead.

    `use_multiprocessing` gives a warning and one thread: processes forked from a running backend can hang, and code written for
    processes need not be thread-safe.

    Args:
        dataset: the dataset to wrap. If it has `made_ahead_by`, as `EpochBatches` does, that is the number of threads, its order is
            not changed, and its epoch hooks do not run for a preview.
        check: as for `checked_data`.
    """

    in_preview: bool = False
    """Whether Keras is only reading the first batch, which is not an epoch although it calls the epoch hooks.

    The hooks of users' datasets are called all the same, as in Keras.
    """

    puts_ahead: bool = False
    """Whether the threads also copy batches to the accelerator, if there is one."""

    def __init__(self, dataset, check):
        super().__init__(workers=0)
        self.dataset, self.check = dataset, check
        self.keeps_order = hasattr(dataset, "made_ahead_by")  # the batches are read in their own order
        self._threads = dataset.made_ahead_by if self.keeps_order else dataset.workers if dataset.workers > 1 else 0
        if dataset.use_multiprocessing and dataset.workers > 0:
            self._threads = 1
            warnings.warn(
                f"the batches of {type(dataset).__name__} are prepared by one thread, not by {dataset.workers} processes as with "
                "use_multiprocessing=True: processes forked from a running backend can hang.",
                stacklevel=5,
            )
        self._order = None  # the order of the batches of this epoch, if it is drawn here
        self._draws = False
        self._ahead = None
        self._put = None
        self._in_epoch = self._is_read = False  # whether there is an epoch of a pipeline, and whether it came to its end

    @property
    def num_batches(self):
        return self.dataset.num_batches

    @property
    def may_be_pipeline(self):
        """Whether `in_epochs` may read it through a pipeline of its own."""
        if not traits.tunes_pipelines() or not self.num_batches:
            return False
        # Hooks of a user's dataset may change how many batches there are; a pipeline is told their number once.
        has_hooks = any(getattr(type(self.dataset), name) is not getattr(keras.utils.PyDataset, name) for name in HOOKS)
        return self.keeps_order or not has_hooks

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        ahead = self._ahead
        if ahead is None:
            return self._make(index)
        if index == 0 and self._draws:
            ahead.forget()
            self._order = list(range(self.num_batches))
            random.shuffle(self._order)
        return ahead.at(index)

    def one_of_each_shape(self):
        """A batch of each shape of an epoch; none if the wrapped dataset does not tell them, or Keras adds weights to batches."""
        tell = getattr(self.dataset, "one_of_each_shape", list) if self.puts_ahead else list
        return [self.check(as_batch(batch)) for batch in tell()]

    def take_shuffle(self, shuffle=None):
        """The `shuffle` to pass to Keras; if threads or a pipeline must know the order of the batches, it is drawn here instead.

        It is drawn as in Keras: every epoch, with Python's `random`, which `keras.utils.set_random_seed` seeds.

        Args:
            shuffle: the user's argument; None if there was none.
        """
        has_end = self.num_batches is not None
        if shuffle is None:
            shuffle = has_end and not self.keeps_order  # Keras's default is True, with a warning for endless datasets
        self._draws = bool(shuffle and has_end and (self._threads or self.may_be_pipeline) and not self.keeps_order)
        return shuffle and not self._draws

    def on_epoch_begin(self):
        self.close()
        if not (self.in_preview and self.keeps_order):
            self.dataset.on_epoch_begin()
        threads = 0 if self.in_preview else self._threads
        self._put = put_ahead() if threads and self.puts_ahead else None
        self._ahead = ReadAhead(self._make, self.num_batches, threads, self.dataset.max_queue_size)

    def on_epoch_end(self):
        self.close()
        if not (self.in_preview and self.keeps_order):
            self.dataset.on_epoch_end()

    def epoch(self, count):
        """The batches of an epoch, for a pipeline; its hook runs at its begin, and that of its end when `end_epoch` is called.

        Args:
            count: the number of batches that are read.

        Raises:
            ValueError: there are fewer.
        """
        self.end_epoch()
        self.on_epoch_begin()
        if self.num_batches < count:
            raise ValueError(
                f"{type(self.dataset).__name__}: expected {count} batches in every epoch, as many as there were at first; got "
                f"{self.num_batches}. A dataset with an `on_epoch_end` of its own may have fewer."
            )
        self._in_epoch, self._is_read = True, False
        for index in range(count):
            yield self[index]
        self._is_read = True  # asked for when there is room for another batch, so all but perhaps the last have been read

    def end_epoch(self):
        """End the epoch that a pipeline has read, if there is one."""
        if self._in_epoch:
            self._in_epoch = False
            self.on_epoch_end()

    def leave_epoch(self):
        """Drop the epoch of a pipeline unless it was read to its end: as in Keras, the hook of its end does not run then."""
        self._in_epoch = self._in_epoch and self._is_read

    def close(self, wait=True):
        """End the threads; with `wait`, wait for one that is still preparing a batch, which is discarded."""
        if self._ahead is not None:
            self._ahead.forget(wait)
            self._ahead = None

    def _make(self, index):
        batch = self.check(as_batch(self.dataset[index if self._order is None else self._order[index]]))
        return batch if self._put is None else keras.tree.map_structure(self._put, batch)


class CheckedLoader(keras.utils.PyDataset):
    """A torch `DataLoader` read in its own order, once per epoch, with a check of every batch."""

    def __init__(self, loader, check):
        super().__init__()
        self.loader = loader
        self.check = check
        self._batches = iter(())

    def __len__(self):
        return len(self.loader)

    def __getitem__(self, index):
        if index == 0:
            self._batches = iter(self.loader)
        batch = keras.tree.map_structure(keras.ops.convert_to_numpy, next(self._batches))
        return self.check(as_batch(batch))


def as_batch(batch):
    """The batch in the form that Keras's readers take: a dictionary of inputs, or a tuple of one to three items."""
    batch = as_tuples(batch)
    return batch if isinstance(batch, (dict, tuple)) else (batch,)


def as_tuples(batch):
    """The batch with tuples instead of lists, which TensorFlow would convert to one array."""
    if isinstance(batch, dict):
        return {name: as_tuples(item) for name, item in batch.items()}
    return tuple(as_tuples(item) for item in batch) if isinstance(batch, (list, tuple)) else batch


def _checked_generator(generator, check):
    for batch in generator:
        batch = as_batch(batch)
        yield check(batch if isinstance(batch, tuple) else (batch,))  # Keras refuses any other from a generator
