"""Put a host check between the data that a user gives to `fit` and the device, whatever kind of data it is."""

import types

import keras


def checked_data(data, check):
    """The same data, every batch of it passing through `check`.

    Args:
        data: a `PyDataset`, a generator, a `tf.data.Dataset`, a torch `DataLoader` or arrays.
        check: a function of a batch, `(x,)`, `(x, y)` or `(x, y, sample_weight)`, that returns it or raises.

    Returns:
        Data of a kind that Keras accepts; anything else as it is, unchecked, such as a dataset that a strategy has distributed or
        a `DataLoader` that does not know its length.
    """
    if isinstance(data, keras.utils.PyDataset):
        return CheckedPyDataset(data, check)
    if isinstance(data, types.GeneratorType):
        return _checked_generator(data, check)
    kinds = {f"{cls.__module__}.{cls.__name__}" for cls in type(data).__mro__}
    if any(kind.startswith("tensorflow.") and kind.endswith(".DatasetV2") for kind in kinds):
        from keras_bert_rebuild.models.checked_tf_dataset import checked_tf_dataset

        return checked_tf_dataset(data, check)
    if "torch.utils.data.dataloader.DataLoader" in kinds:
        return CheckedLoader(data, check) if hasattr(data.dataset, "__len__") else data
    return data


class CheckedPyDataset(keras.utils.PyDataset):
    """A `PyDataset` that checks the batches of another one; its workers, length and epoch hooks are those of the other."""

    def __init__(self, dataset, check):
        super().__init__(
            workers=dataset.workers,
            use_multiprocessing=dataset.use_multiprocessing,
            max_queue_size=dataset.max_queue_size,
        )
        self.dataset = dataset
        self.check = check

    @property
    def num_batches(self):
        return self.dataset.num_batches

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        return self.check(as_tuples(self.dataset[index]))

    def on_epoch_begin(self):
        self.dataset.on_epoch_begin()

    def on_epoch_end(self):
        self.dataset.on_epoch_end()


class CheckedLoader(keras.utils.PyDataset):
    """A torch `DataLoader` read in its own order, one pass an epoch, with a check of every batch."""

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
        return self.check(as_tuples(batch))


def as_tuples(batch):
    """The batch with tuples for lists: TensorFlow takes a list for one array."""
    if isinstance(batch, (list, tuple)):
        return tuple(as_tuples(item) for item in batch)
    return batch


def _checked_generator(generator, check):
    for batch in generator:
        yield check(as_tuples(batch))
