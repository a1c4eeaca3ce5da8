"""How the demo trains a small BERT: batches, the training, the figures on held-out text beside what needs no understanding."""

import time
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Recipe:
    """The sizes of a model and of its training."""

    sizes: dict = field(default_factory=dict)
    """Arguments of `get_model`."""

    steps: int = 1000
    """Training steps."""

    batch_size: int = 16
    """Pairs of segments in a batch."""

    seq_len: int = 64
    """Tokens of a pair."""

    max_predictions: int = 10
    """Masked tokens of a pair, at most."""

    learning_rate: float = 1e-3
    """The peak."""

    evaluation_steps: int = 100
    """Batches of held-out text."""

    compiled: tuple = ()
    """The backends on which XLA compiles the steps."""


@dataclass(frozen=True)
class Training:
    """A model with what it learns from."""

    recipe: Recipe
    vocabulary: dict
    corpus: Any
    model: Any
    batches: Any
    held_out: Any


def encode(console, train, test, vocabulary):
    """Two corpora of ids: the training documents, and the test documents without passages that are also in training."""
    from keras_bert_rebuild.data.corpora.held_out import unseen

    train_corpus, test_corpus = (_encode(console, part, vocabulary, name) for part, name in ((train, "training"), (test, "test")))
    test_corpus = unseen(test_corpus, train_corpus)  # compares ids, since different texts may have the same
    passages = [f"{len(corpus.passage_starts) - 1:,}" for corpus in (train_corpus, test_corpus)]
    console.print(
        f"{len(train):,} documents of {passages[0]} passages to train on; {len(test):,} of {passages[1]} held out, "
        "without passages that occur in training too."
    )
    return train_corpus, test_corpus


def _encode(console, documents, vocabulary, name):
    import numpy as np

    from keras_bert_rebuild.cli.progress import track
    from keras_bert_rebuild.data.corpora.documents import encode_documents
    from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

    tokenizer = WordPieceTokenizer(vocabulary, cased=False, fast=False)

    def encoded(document):
        ids, lengths = tokenizer.encode_flat(document)
        return np.split(ids, np.cumsum(lengths)[:-1])

    documents = track(console, documents, f"tokenising {name} text", "documents")
    return encode_documents(map(encoded, documents), lambda ids: ids, list(vocabulary))


def build(recipe, seed, vocabulary, train_corpus, test_corpus, steps=None):
    """The model, its training batches and the held-out batches, which depend on the seed alone.

    Args:
        recipe: a `Recipe`.
        seed: of the weights and the batches.
        vocabulary: token to id.
        train_corpus, test_corpus: as from `encode`.
        steps: None for those of the recipe.
    """
    import keras

    from keras_bert_rebuild import compile_model, get_model
    from keras_bert_rebuild.data.corpora.documents import unigram_log_probabilities
    from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches

    steps = steps or recipe.steps
    keras.utils.set_random_seed(seed)
    model = get_model(len(vocabulary), seq_len=recipe.seq_len, pos_num=recipe.seq_len, **recipe.sizes)
    compile_model(
        model,
        learning_rate=recipe.learning_rate,
        decay_steps=steps,
        warmup_steps=steps // 10,
        max_predictions=recipe.max_predictions,
        jit_compile=keras.backend.backend() in recipe.compiled,
    )
    # The head starts with the frequencies of the tokens, and learns what the context adds.
    log_probabilities = unigram_log_probabilities(train_corpus.ids, len(vocabulary))
    model.get_layer("MLM-Sim").bias.assign(log_probabilities.astype("float32"))
    shape = (recipe.batch_size, recipe.seq_len, recipe.max_predictions)
    batches = pretraining_batches(train_corpus, *shape, seed=seed, short_seq_prob=0.0, steps_per_epoch=steps)
    held_out = pretraining_batches(
        test_corpus, *shape, seed=seed + 1, short_seq_prob=0.0, steps_per_epoch=recipe.evaluation_steps, repeat=True
    )
    return Training(recipe, vocabulary, train_corpus, model, batches, held_out)


def steps_for(minutes, training):
    """The number of steps that the model makes in this time; the weights are discarded."""
    x, y = training.batches[0]
    for _ in range(3):
        training.model.train_on_batch(x, y)
    started = time.perf_counter()
    for _ in range(20):
        training.model.train_on_batch(x, y)
    return max(int(minutes * 60 / (time.perf_counter() - started) * 20), 1)


def train(console, training):
    """Run the training, with a bar, and print its speed."""
    from keras_bert_rebuild.cli.fit_progress import FitProgress

    recipe, steps = training.recipe, len(training.batches)
    bar = FitProgress(console, "training", steps)
    training.model.fit(training.batches, epochs=1, shuffle=False, verbose=0, callbacks=[bar])
    tokens = (steps - 1) * recipe.batch_size * recipe.seq_len / max(bar.seconds, 1e-9)
    first = f", after {bar.first:.0f} s for the first" if bar.first > 2 else ""
    console.print(
        f"{steps:,} steps in {bar.seconds:.0f} s{first}: {steps / max(bar.seconds, 1e-9):.1f} steps/s, {tokens:,.0f} tokens/s."
    )


def evaluate(console, training):
    """Print loss and accuracies on held-out text, each beside what is reached without reading the text.

    Returns:
        The accuracy at masked words.
    """
    import numpy as np

    from keras_bert_rebuild.cli.fit_progress import FitProgress
    from keras_bert_rebuild.data.corpora.documents import unigram_log_probabilities
    from keras_bert_rebuild.data.pretraining.pair_probe import probe_of_pairs

    held_out = training.held_out
    progress = FitProgress(console, "evaluating", len(held_out))
    logs = training.model.evaluate(held_out, verbose=0, return_dict=True, callbacks=[progress])
    log_probabilities = unigram_log_probabilities(training.corpus.ids, len(training.vocabulary))
    chosen = []
    for index in range(len(held_out)):
        (_, _, positions), (labels, _) = held_out[index]
        chosen.append(labels[..., 0][positions == 1])
    chosen = np.concatenate(chosen)
    # What lengths and edges of the segments reveal needs no understanding.
    probe = probe_of_pairs(training.batches, held_out)
    rows = (
        ("MLM loss", f"{logs['MLM_loss']:.3f} nats", f"unigram {-log_probabilities[chosen].mean():.3f}"),
        ("MLM accuracy", f"{logs['MLM_accuracy']:.1%}", f"most frequent word {(chosen == log_probabilities.argmax()).mean():.1%}"),
        (
            "NSP accuracy",
            f"{logs['NSP_accuracy']:.1%}",
            f"more frequent answer {probe.prior:.1%}, lengths and edges {probe.accuracy:.1%}",
        ),
    )
    console.print(f"On {len(chosen):,} masked words of held-out documents, and without reading them:")
    for name, value, without in rows:
        console.print(f"  {name:<13} {value:>11}   {without}", highlight=False)
    return logs["MLM_accuracy"]
