"""Trainings on several devices and on one: `python trainings_on_devices.py NAME` prints their results as JSON.

`python trainings_on_devices.py pretrain OPTIONS...` is `keras-bert pretrain` on a small corpus and two TensorFlow processors.
"""

import json
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

from helpers import small_runs
from helpers.killed_runs import SETTINGS, TINY, corpus, run
from helpers.small import make_variables
from helpers.small_corpus import small_corpus
from helpers.small_tasks import TOKENIZER, WORDS, small_encoder
from helpers.tiny_training import NumberedBatches
from helpers.two_devices import two_devices
from keras_bert_rebuild import AdamW, BertConfig, SentenceEmbedder, add_lora, build_model, compile_model, distribute, pretrain
from keras_bert_rebuild.data.labelled.labelled_examples import TextGroup
from keras_bert_rebuild.tasks.objectives import VectorTraining
from keras_bert_rebuild.training.optimizers.whole_batch import LossScaleOptimizer
from keras_bert_rebuild.training.state.train_state import read_state, write_state

STEPS, BATCH, LENGTH, VOCAB = 20, 8, 12, 104


def make_batch(number):
    """A batch whose rows have from one to four labels, so that its parts have different numbers of labels."""
    rng = np.random.default_rng([number, 3])
    ids = rng.integers(5, VOCAB, (BATCH, LENGTH))
    ids[np.arange(LENGTH) >= rng.integers(6, LENGTH + 1, (BATCH, 1))] = 0
    masked = (np.arange(LENGTH) < rng.integers(1, 5, (BATCH, 1))).astype("int32")
    return (ids, np.zeros_like(ids), masked), (ids[..., None], rng.integers(0, 2, (BATCH, 1)))


class Trained:
    """A model on some devices, with the results of an evaluation, the losses of all steps, its state before and in the middle.

    Args:
        kind, **where: see `distribute`.
        dropout: the rate of dropout, of hidden values and attention.
        blocks: encoder blocks.
    """

    def __init__(self, kind, dropout, blocks=2, **where):
        self.where = distribute(kind, **where)
        keras.utils.set_random_seed(7)
        sizes = {"vocab_size": VOCAB, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64}
        config = BertConfig(
            **sizes,
            num_hidden_layers=blocks,
            max_position_embeddings=LENGTH,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )
        with self.where:
            self.model = build_model(config, ["mlm", "nsp"])
            # Every gradient is longer than this, so it is clipped.
            compile_model(self.model, optimizer=AdamW(1e-3, global_clipnorm=0.5), max_predictions=4)
            if keras.config.backend() == "tensorflow":
                make_variables(self.model)
            self.first = read_state(self.model)
        self.evaluated = self.evaluate()
        self.losses = self.train(0, STEPS // 2)
        self.middle = read_state(self.model)
        self.losses += self.train(STEPS // 2, STEPS)

    def train(self, start, stop, state=None):
        """The loss of every step, from a state if one is given."""
        losses = []
        with self.where:
            if state is not None:
                write_state(self.model, state)
            for step in range(start, stop):
                batches = NumberedBatches(make_batch, step, step + 1)
                losses += self.model.fit(batches, shuffle=False, verbose=0).history["loss"]
        return losses

    def evaluate(self):
        """The results of three batches, after each of them and at the end."""
        logs = Logs()
        with self.where:
            batches = NumberedBatches(make_batch, 0, 3)
            in_the_end = self.model.evaluate(batches, verbose=0, callbacks=[logs], return_dict=True)
        return [*logs.of_batches, in_the_end]


class Logs(keras.callbacks.Callback):
    """What Keras reports after every batch of an evaluation."""

    def __init__(self):
        super().__init__()
        self.of_batches = []

    def on_test_batch_end(self, batch, logs=None):
        self.of_batches.append({name: float(value) for name, value in logs.items()})


DROPOUT = 0.1


def parts(model):
    """The weights and moments that are sharded: by path, the shape of the whole and of the part on a device."""
    variables = [*model.weights, *model.optimizer.variables]
    cut = [variable for variable in variables if not variable.value.is_fully_replicated]
    return {v.path: [list(v.shape), list(v.value.addressable_shards[0].data.shape)] for v in cut}


def eight():
    """A training on one, eight and two by four JAX devices."""
    one, data, model = Trained("none", DROPOUT), Trained("data", DROPOUT), Trained("model", DROPOUT, model_devices=4)
    batch = data.model.predict_on_batch  # a model trained on several devices is used outside of the scope
    answers = batch((np.full((3, 12), 9), np.zeros((3, 12), "int32"), np.ones((3, 12), "int32")))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        pretrain(corpus(), folder, SETTINGS, distribute="none", report=rows.append)
    return {
        "losses": {"one": one.losses, "data": data.losses, "model": model.losses},
        "evaluated": {"one": one.evaluated, "data": data.evaluated, "model": model.evaluated},
        "again": data.train(0, STEPS // 2, data.first),
        "one after data": one.train(STEPS // 2, STEPS, data.middle),
        "model after one": model.train(STEPS // 2, STEPS, one.middle),
        "parts": parts(model.model),
        "cut on data": parts(data.model),
        "pretrained": {name: [row[name] for row in rows[1:]] for name in ("loss", "tokens")},
        "devices": [[t.where.kind, t.where.devices, t.where.replicas] for t in (one, data, model)],
        "probabilities": float(np.sum(keras.ops.convert_to_numpy(answers[1]))),
    }


def scaled_steps():
    """Three steps of a weight whose gradient is scaled; in the second, that of the last replica is not finite."""
    import tensorflow as tf

    where = distribute("mirrored")
    with where:
        strategy, weight = tf.distribute.get_strategy(), keras.Variable([1.0, 1.0], name="kernel")
        optimizer = LossScaleOptimizer(AdamW(0.1, global_clipnorm=1.0))
        optimizer.build([weight])

    @tf.function
    def step(overflows):
        def on_replica():
            last = tf.distribute.get_replica_context().replica_id_in_sync_group == strategy.num_replicas_in_sync - 1
            gradient = tf.where(tf.logical_and(overflows, last), float("inf"), 1000.0)
            optimizer.apply([tf.fill([2], gradient)], [weight])

        strategy.run(on_replica)

    steps = []
    for overflows in (False, True, False):
        step(tf.constant(overflows))
        first = lambda variable: strategy.experimental_local_results(variable.value)[0].numpy().tolist()  # noqa: E731
        counted = {"scale": first(optimizer.dynamic_scale), "steps": first(optimizer.inner_optimizer.iterations)}
        steps.append({"weights": first(weight), **counted})
    return steps


def replicas():
    """A training on one and two logical TensorFlow processors."""
    one, two = Trained("none", 0.0, blocks=1), Trained("mirrored", 0.0, blocks=1)
    dropped = Trained("mirrored", 0.1, blocks=1)
    return {
        "losses": {"one": one.losses, "two": two.losses, "dropped": dropped.losses},
        "evaluated": {"one": one.evaluated, "two": two.evaluated},
        "again": dropped.train(0, STEPS // 2, dropped.first),
        "gone on": dropped.train(STEPS // 2, STEPS, dropped.middle),
        "one after two": one.train(STEPS // 2, STEPS, two.middle),
        "two after one": two.train(STEPS // 2, STEPS, one.middle),
        "scaled": scaled_steps(),
        "devices": [[t.where.kind, t.where.devices, t.where.replicas] for t in (one, two)],
        "copies": [len(weight.value.values) for weight in two.model.weights],
    }


def groups():
    rng = np.random.default_rng(2)
    text = lambda: " ".join(rng.choice(WORDS, rng.integers(2, 12)))  # noqa: E731
    return [TextGroup(text(), text(), (text(),)) for _ in range(2 * BATCH)]


def trained(kind, chunk=None):
    """The losses of two steps, and the sums of the weights after them."""
    where = distribute(kind)
    keras.utils.set_random_seed(3)
    with where:
        settings = {"example_kind": "retrieval", "max_len": 16, "training": VectorTraining(chunk=chunk)}
        task = SentenceEmbedder.from_encoder(small_encoder(), TOKENIZER, **settings)
        batches = task.batches(task.encode(groups()), BATCH)
        task.compile(keras.optimizers.SGD(0.1))
        rows = [len(batches[i][0][0]) for i in range(len(batches))]
        losses = [float(np.ravel(task.training_model.train_on_batch(*batches[i]))[0]) for i in range(len(batches))]
        weights = [float(np.abs(weight).sum()) for weight in task.training_model.get_weights()]
    return {"devices": where.devices, "rows": rows, "losses": losses, "weights": weights}


def retrieval():
    """Steps of a training for retrieval on one and on several JAX devices."""
    return {"one": trained("none"), "several": trained("data"), "chunks": trained("data", chunk=8)}


def sharded_optimizers():
    """The largest difference of weights between one device and several that share them, by optimizer."""
    documents, differences = small_corpus(documents=16, passages=4, longest=10), {}
    for optimizer in ("muon", "stable_adamw"):
        settings = {**small_runs.FOUR_STEPS, "optimizer": optimizer, "batch_size": 8, "learning_rate": 1e-3}
        weights = []
        for kind in ({"distribute": "none"}, {"distribute": "model", "model_devices": 2}):
            with tempfile.TemporaryDirectory() as folder:
                model = pretrain(documents, Path(folder) / "run", settings, **kind)
                weights.append([keras.ops.convert_to_numpy(weight) for weight in model.weights])
        differences[optimizer] = max(float(np.abs(a - b).max()) for a, b in zip(*weights, strict=True))
    return differences


class Held(keras.callbacks.Callback):
    """Counts, after a training, the bytes of weights and optimizer, and how many of them are on one device."""

    def on_train_end(self, logs=None):
        arrays = [variable.value for variable in (*self.model.weights, *self.model.optimizer.variables)]
        self.bytes = [sum(array.nbytes for array in arrays), sum(array.addressable_shards[0].data.nbytes for array in arrays)]


def pretrained(where, settings):
    """The losses of a run, of held-out text too, and the bytes of its state."""
    rows, held = [], Held()
    changes = {"model": {**TINY, "hidden_size": 64}, "batch_size": 16, "steps": 4, "evaluate_steps": 2, "log_steps": 1}
    with tempfile.TemporaryDirectory() as folder:
        run = {"report": rows.append, "callbacks": [held], **where}
        pretrain(corpus(), Path(folder) / "run", {**SETTINGS, **changes, **settings}, **run)
    return {"losses": [row[name] for row in rows[1:] for name in row if name.endswith("loss")], "held": held.bytes}


def adapted(where, settings):
    """The losses of a training of low-rank matrices, and the bytes of its state."""
    keras.utils.set_random_seed(5)
    config = BertConfig(vocab_size=VOCAB, max_position_embeddings=LENGTH, **{**TINY, "hidden_size": 64})
    with distribute(where.pop("distribute"), **where):
        model = build_model(config, ["mlm", "nsp"])
        add_lora(model, **settings)
        compile_model(model, optimizer=AdamW(1e-2), max_predictions=4)
        held, losses = Held(), []
        for step in range(4):
            batches = NumberedBatches(make_batch, step, step + 1)
            losses += model.fit(batches, shuffle=False, verbose=0, callbacks=[held]).history["loss"]
        losses += [model.evaluate(NumberedBatches(make_batch, 0, 2), verbose=0, return_dict=True)["loss"]]
    return {"losses": losses, "held": held.bytes}


SHARDED = {"one": {"distribute": "none"}, "sharded": {"distribute": "sharded"}}
SHARDED["model axis"] = {"distribute": "sharded", "model_devices": 2}

EVERYTHING = {"ema": 0.9, "gradient_accumulation_steps": 2, "packing": True, "remat": True, "loss_chunk": 16, "seq_len": 32}
VARIANTS = {"every setting": (pretrained, EVERYTHING), "low-rank matrices": (adapted, {"rank": 8})}


def sharded():
    """Trainings of all kinds on one device, on eight that share the weights, and on four by two."""
    return {
        name: {kind: train(dict(where), settings) for kind, where in SHARDED.items()}
        for name, (train, settings) in VARIANTS.items()
    }


if __name__ == "__main__":
    name, *options = sys.argv[1:]
    if keras.config.backend() == "tensorflow":
        two_devices()
    if name == "pretrain":
        sys.exit(run(options))
    names = {"eight": eight, "replicas": replicas, "retrieval": retrieval, "optimizers": sharded_optimizers, "sharded": sharded}
    print(json.dumps(names[name]()))
