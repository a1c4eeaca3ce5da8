"""How the demo trains a small BERT: batches, the training, the figures on held-out text beside what needs no understanding."""

import time
from dataclasses import dataclass, field
from typing import Any

from keras_bert_rebuild.cli.progress import FitBar, rate, track

# What is learnt here is seen a few times: nothing is to be forgotten.
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


@dataclass(frozen=True)
class DemoTraining:
    """The sizes of a model and of its training."""

    sizes: dict = field(default_factory=dict)
    """Fields of `BertConfig`."""

    pairs: bool = True
    """Whether an example is a pair of segments, for an NSP head, too; else it is one segment."""

    steps: int = 1000
    """Training steps."""

    batch_size: int = 16
    """Examples of a batch."""

    seq_len: int = 64
    """Tokens of an example."""

    max_predictions: int = 10
    """Masked tokens of an example, at most."""

    mask_rate: float = 0.15
    """Share of the tokens that are masked."""

    learning_rate: float = 1e-3
    """The peak."""

    evaluation_steps: int = 100
    """Batches of held-out text."""

    compiled: tuple = ()
    """The backends on which XLA compiles the steps."""


@dataclass(frozen=True)
class Training:
    """A model with what it learns from."""

    recipe: DemoTraining
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

    from keras_bert_rebuild.data.corpora.documents import encode_documents
    from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

    tokenizer = WordPieceTokenizer(vocabulary, cased=False)

    def encoded(document):
        ids, lengths = tokenizer.encode_flat(document)
        return np.split(ids, np.cumsum(lengths)[:-1])

    documents = track(console, documents, f"tokenising {name} text", "docs")
    return encode_documents(map(encoded, documents), lambda ids: ids, list(vocabulary))


def build(recipe, seed, vocabulary, train_corpus, test_corpus, steps=None):
    """The model, its training batches and the held-out batches, which depend on the seed alone.

    Args:
        recipe: a `DemoTraining`.
        seed: of the weights and the batches.
        vocabulary: token to id.
        train_corpus, test_corpus: as from `encode`.
        steps: None for those of the recipe.
    """
    import keras

    from keras_bert_rebuild import BertConfig, build_model, compile_model
    from keras_bert_rebuild.data.corpora.documents import unigram_log_probabilities
    from keras_bert_rebuild.data.pretraining.pretraining_batches import pretraining_batches

    steps = steps or recipe.steps
    keras.utils.set_random_seed(seed)
    sizes = {"vocab_size": len(vocabulary), "max_position_embeddings": recipe.seq_len, **NO_DROPOUT, **recipe.sizes}
    model = build_model(BertConfig(**sizes), ["mlm", "nsp"] if recipe.pairs else ["mlm"], seq_len=recipe.seq_len)
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
    settings = {
        "next_sentence": "nsp" if recipe.pairs else None,
        "mask_rate": recipe.mask_rate,
        "short_seq_prob": 0.0,
        "repeat": True,
    }
    batches, held_out = (
        pretraining_batches(
            corpus,
            recipe.batch_size,
            recipe.seq_len,
            recipe.max_predictions,
            seed=seed + number,
            steps_per_epoch=count,
            **settings,
        )
        for number, (corpus, count) in enumerate(((train_corpus, steps), (test_corpus, recipe.evaluation_steps)))
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

    recipe, steps = training.recipe, len(training.batches)
    bar = FitBar(console, "training", steps)
    training.model.fit(training.batches, epochs=1, shuffle=False, verbose=0, callbacks=[bar])
    after = steps - 1  # the first compiles
    rates = rate(after, bar.seconds, "steps"), rate(after * recipe.batch_size * recipe.seq_len, bar.seconds, "tokens")
    first = f", after {bar.first:.0f} s for the first" if bar.first > 2 else ""
    console.print(f"{steps:,} steps in {bar.seconds:.0f} s{first}{': ' if all(rates) else ''}{', '.join(filter(None, rates))}.")


def evaluate(console, training):
    """Print loss and accuracies on held-out text, each beside what is reached without reading the text.

    Returns:
        The accuracy at masked words.
    """
    from keras_bert_rebuild.data.corpora.documents import unigram_log_probabilities
    from keras_bert_rebuild.data.pretraining.pair_probe import probe_of_pairs

    held_out = training.held_out
    progress = FitBar(console, "evaluating", len(held_out))
    logs = training.model.evaluate(held_out, verbose=0, return_dict=True, callbacks=[progress])
    loss, accuracy = (logs.get(f"MLM_{name}", logs.get(name)) for name in ("loss", "accuracy"))
    unigram = unigram_log_probabilities(training.corpus.ids, len(training.vocabulary))
    words, before = masked_words(held_out)
    followers = most_frequent_after(training.corpus.ids, len(training.vocabulary))
    alone = (
        f"most frequent {(words == unigram.argmax()).mean():.1%}, by the word before it {(words == followers[before]).mean():.1%}"
    )
    rows = [
        ("MLM loss", f"{loss:.3f} nats", f"unigram {-unigram[words].mean():.3f}"),
        ("MLM accuracy", f"{accuracy:.1%}", alone),
    ]
    if training.recipe.pairs:
        probe = probe_of_pairs(training.batches, held_out)  # what lengths and edges reveal needs no understanding
        alone = f"more frequent answer {probe.prior:.1%}, by lengths and edges {probe.accuracy:.1%}"
        rows.append(("NSP accuracy", f"{logs['NSP_accuracy']:.1%}", alone))
    console.print(f"On {len(words):,} masked words of held-out documents, and by counts alone:")
    for name, value, without in rows:
        console.print(f"  {name:<13}{value:>11}   {without}", highlight=False)
    return accuracy


def masked_words(batches):
    """The masked words of batches, and the word before each: two arrays of ids, `(masks,)`."""
    import numpy as np

    words, before = [], []
    for index in range(len(batches)):
        (*_, masked), labels = batches[index]
        ids = (labels[0] if isinstance(labels, (list, tuple)) else labels)[..., 0]  # before masking
        rows, columns = np.nonzero(masked)
        words.append(ids[rows, columns])
        before.append(ids[rows, columns - 1])
    return np.concatenate(words), np.concatenate(before)


def most_frequent_after(ids, vocab_size):
    """For every token the one that follows it most often in a text, `(vocab_size,)`; the most frequent of all where none does."""
    import numpy as np

    pairs, counts = np.unique(ids[:-1].astype("int64") * vocab_size + ids[1:], return_counts=True)
    followers = np.full(vocab_size, np.bincount(ids, minlength=vocab_size).argmax())
    order = np.argsort(counts, kind="stable")  # the last of a token stays
    followers[pairs[order] // vocab_size] = pairs[order] % vocab_size
    return followers
