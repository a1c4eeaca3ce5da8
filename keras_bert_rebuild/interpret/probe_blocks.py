"""What every block encodes of some labels: linear probes with control tasks."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from keras_bert_rebuild.data.labelled.labelled_examples import ClassifiedText, TaggedWords
from keras_bert_rebuild.data.labelled.length_buckets import random_order
from keras_bert_rebuild.interpret.block_vectors import BlockVectors
from keras_bert_rebuild.interpret.probing import Probing
from keras_bert_rebuild.tasks.metrics.classes import macro_f1
from keras_bert_rebuild.tasks.metrics.linear_probe import choose_l2, every_fifth, fit_linear_probe, standardised
from keras_bert_rebuild.text.batch_tokenizer import BatchTokenizer

# Number of tokens in the bag of words, the most frequent ones.
BAG = 2000

# Strengths of the penalty for the bag of words, whose vectors have length 1.
BAG_L2S = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)


def probe(
    model: keras.Model,
    tokenizer: BatchTokenizer,
    train: Sequence[Any],
    dev: Sequence[Any],
    *,
    pooling: str = "mean",
    max_len: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
    progress: Callable[[str], Any] | None = None,
) -> Probing:
    """How well a linear classifier predicts labels from the vectors of every depth. The model is not changed.

    The classifier is a multinomial logistic regression on standardised vectors. Its penalty is chosen on every fifth training text,
    and it is refitted on all of them.

    An accurate probe may have learned the task itself. The control task measures how much it can memorise: the same probe with the
    same penalty on random labels, which are a function of the word, or of the text, with the frequencies of the real ones.
    Selectivity is the accuracy of the task minus that of the control task; if it is small, the accuracy says little about the
    vectors. For words, both are measured on `dev`, where training words recur; for texts, both on the training texts.

    Baselines are the accuracy of always predicting the most frequent label, and that of the words without the model: a linear
    classifier on a bag of tokens, or for words the most frequent label of the same word in training.

    Args:
        model: any model with an encoder of this library in it.
        tokenizer: its tokenizer.
        train: `ClassifiedText`s with one label each, for vectors of texts; or `TaggedWords`, for vectors of words.
        dev: examples of the same kind, to evaluate on.
        pooling: for texts "mean" or "cls": see `BlockVectors.of_texts`.
        max_len, batch_size: see `BlockVectors`.
        seed: seed of the labels of the control task.
        progress: called with a line about the current step.

    Returns:
        A `Probing`.

    Raises:
        ValueError: examples are of another kind, have no labels, or all have the same label.

    Reference: Alain and Bengio, 2017 (https://arxiv.org/abs/1610.01644); Hewitt and Liang, 2019, section 2
    (https://arxiv.org/abs/1909.03368).
    """
    say = progress or (lambda line: None)
    train, dev = list(train), list(dev)
    of_words = _are_words(train, dev)
    reader = BlockVectors(model, tokenizer, max_len, batch_size)
    read = _read_words if of_words else _read_texts
    say(f"reading {len(train):,} and {len(dev):,} texts")
    (vectors, labels, groups, types), (dev_vectors, dev_labels, _, dev_types) = (
        read(reader, part, pooling) for part in (train, dev)
    )
    names = sorted({*labels})
    if len(names) < 2:
        raise ValueError(f"training examples must have at least two different labels; they have {names or 'none'}.")
    if not {*names} & {*dev_labels}:
        raise ValueError(f"dev examples must have labels of the training examples, such as {names[0]!r:.80}; they have none.")
    # A label that occurs only in dev cannot be learned and counts as an error.
    number = {name: i for i, name in enumerate(names)}
    y, z = np.array([number[label] for label in labels]), np.array([number.get(label, -1) for label in dev_labels])
    control = _control(types, dev_types, y, len(names), seed)
    held_out, scores = every_fifth(groups), []
    for depth, name in enumerate(reader.depths):
        say(f"probing the {name}" if not depth else f"probing {name}")
        x, x_dev = standardised(vectors[depth], dev_vectors[depth])
        l2 = choose_l2(x, y, len(names), held_out)
        task, other = (fit_linear_probe(x, targets, len(names), l2, tolerance=1e-5) for targets in (y, control[0]))
        answers = task.predict(x_dev)
        fitted = float(np.mean(task.predict(x) == y))
        accuracy = float(np.mean(answers == z))
        by_heart = float(np.mean(other.predict(x_dev) == control[1]) if of_words else np.mean(other.predict(x) == control[0]))
        scores.append((l2, accuracy, macro_f1(z.tolist(), answers.tolist()), fitted, by_heart))
    say("measuring what the words alone know")
    l2s, accuracies, f1s, fits, controls = zip(*scores, strict=True)
    majority = int(np.bincount(y).argmax())
    alone = _of_types(types, y, dev_types, majority) if of_words else _bag_of_words(reader, train, dev, y, len(names))
    return Probing(
        depths=reader.depths,
        unit="words" if of_words else "texts",
        labels=tuple(map(str, names)),
        counts=(len(y), len(z)),
        accuracies=accuracies,
        macro_f1s=f1s,
        fitted=fits,
        controls=controls,
        l2s=l2s,
        majority=float(np.mean(z == majority)),
        words_alone=float(np.mean(alone == z)),
    )


def sampled(examples: Sequence[Any], limit: int | None, seed: int = 0) -> list[Any]:
    """A random sample of at most `limit` examples in the order of the file, fixed by the seed; all for None."""
    if limit is None or len(examples) <= limit:
        return list(examples)
    return [examples[i] for i in np.sort(random_order(seed, 0, len(examples))[:limit])]


def _are_words(train, dev):
    kinds = {type(example) for example in (*train, *dev)}
    if not train or not dev or kinds not in ({ClassifiedText}, {TaggedWords}):
        names = ", ".join(sorted(kind.__name__ for kind in kinds)) or "none"
        raise ValueError(f"probing needs training and dev examples that are all ClassifiedText or all TaggedWords; got {names}.")
    for example in (*train, *dev):
        right = example.right()
        if right is None or (isinstance(example, ClassifiedText) and isinstance(right, (tuple, list, float))):
            where = example.where or "an example"
            raise ValueError(f"probing needs one label for every text, or a tag for every word; got {right!r:.80} in {where}.")
    return kinds == {TaggedWords}


def _read_texts(reader, examples, pooling):
    """Vectors, labels, the group of each, and the inputs of the control task."""
    pairs = [example.pair for example in examples]
    if any(pair is None for pair in pairs) and any(pair is not None for pair in pairs):
        raise ValueError("examples must all be pairs or all be single texts; only some have a second text.")
    texts = [example.text for example in examples]
    vectors = reader.of_texts(texts, None if pairs[0] is None else pairs, pooling)
    return vectors, [example.label for example in examples], np.arange(len(examples)), list(zip(texts, pairs, strict=True))


def _read_words(reader, examples, pooling):
    vectors, sentences, words = reader.of_words([example.words for example in examples])
    at = list(zip(sentences.tolist(), words.tolist(), strict=True))
    return vectors, [examples[i].tags[j] for i, j in at], sentences, [examples[i].words[j] for i, j in at]


def _control(types, dev_types, labels, num_labels, seed):
    """The labels of the control task for both parts: one per word, or text, drawn with the label frequencies of training."""
    all_types = sorted({*types, *dev_types}, key=str)
    shares = np.bincount(labels, minlength=num_labels) / len(labels)
    drawn = np.random.default_rng(seed).choice(num_labels, len(all_types), p=shares)
    label_of = dict(zip(all_types, drawn.tolist(), strict=True))
    return tuple(np.array([label_of[one] for one in part]) for part in (types, dev_types))


def _of_types(types, labels, dev_types, majority):
    """For every word its most frequent label in training; for new words the most frequent label overall."""
    counts: dict[Any, Counter] = {}
    for one, label in zip(types, labels.tolist(), strict=True):
        counts.setdefault(one, Counter())[label] += 1
    best = {one: min(label_counts, key=lambda label: (-label_counts[label], label)) for one, label_counts in counts.items()}
    return np.array([best.get(one, majority) for one in dev_types])


def _bag_of_words(reader, train, dev, labels, num_labels):
    """The predictions of a linear classifier on the bag of tokens of a text."""
    rows = []
    for part in (train, dev):
        encoding = reader.tokenizer.encode_batch([f"{example.text} {example.pair or ''}" for example in part])
        rows.append([np.unique(ids) for ids in encoding.ids])
    counts = np.bincount(np.concatenate(rows[0]))
    frequent = np.argsort(-counts, kind="stable")[:BAG]
    column = np.full(len(counts), -1)
    column[frequent[counts[frequent] > 1]] = np.arange((counts[frequent] > 1).sum())
    x, x_dev = (_bags(part, column) for part in rows)
    l2 = choose_l2(x, labels, num_labels, every_fifth(len(labels)), candidates=BAG_L2S)
    return fit_linear_probe(x, labels, num_labels, l2, tolerance=1e-5).predict(x_dev)


def _bags(rows, column):
    """Vectors of length 1 with an entry above 0 for each token in a text."""
    bags = np.zeros((len(rows), max(1, int(column.max()) + 1)))
    for i, ids in enumerate(rows):
        columns = column[ids[ids < len(column)]]
        bags[i, columns[columns >= 0]] = 1.0
    return bags / np.maximum(1.0, np.sqrt(bags.sum(1, keepdims=True)))
