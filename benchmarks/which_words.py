"""Whether the words that a method of attribution names carry the answer of a classifier, and what of the model it sees.

    python benchmarks/which_words.py subjectivity/model --test test.tsv

For every method, over `--texts` texts of eight words or more that are answered rightly:

    drop     how far the logit of the answer falls, less that of the other label, with its three strongest words masked; beside the
             three that leave-one-out names and three random ones
    label    Spearman's correlation of its scores for the two labels: 1 for a method that does not see the label, near -1 for one
             that does, since the words that speak for a label speak against the other
    head     of its scores before and after the classifier's last layer is newly initialised
    blocks   before and after all blocks are newly initialised too (Adebayo et al., 2018): near 0 for a method that sees the model

The last two correlations are of the absolute scores of the words of a text. All are means over texts.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import keras
import numpy as np

from keras_bert_rebuild import load_task
from keras_bert_rebuild.data.labelled.read_labelled import read_examples
from keras_bert_rebuild.interpret import attribute

METHODS = ("integrated_gradients", "gradient_x_input", "leave_one_out", "rollout")


def ranks(values):
    """Ranks from 0, equal values with their mean."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts + 1) / 2)[places]


def spearman(first, second):
    one, other = ranks(first), ranks(second)
    if one.std() == 0 or other.std() == 0:
        return np.nan
    return float(np.corrcoef(one, other)[0, 1])


def correlation(first, second):
    """The mean over texts of Spearman's correlation of the scores of their words."""
    return float(np.nanmean([spearman(a, b) for a, b in zip(first, second, strict=True)]))


def scores_of(task, texts, method, targets):
    """The scores of the words of every text for its target."""
    return [
        np.array([word.score for word in attribute(task, [text], method=method, target=target)[0].words])
        for text, target in zip(texts, targets, strict=True)
    ]


def masked(task, text, words, places):
    """The text with the words at some places replaced by the mask."""
    for place in sorted(places, reverse=True):
        word = words[place]
        text = text[: word.start] + task.tokenizer.tokens[task.tokenizer.mask_id] + text[word.end :]
    return text


def margins(task, texts, targets):
    """The log odds of the target of every text."""
    answers = task(texts)
    chances = np.array([answer.probabilities[target] for answer, target in zip(answers, targets, strict=True)])
    return np.log(chances) - np.log1p(-chances)


def initialise(task, pattern, rng):
    """Draw new kernels for the weights whose path has a pattern, with their own deviation; biases and norms stay."""
    for weight in task.model.weights:
        if pattern in weight.path and weight.path.endswith("kernel"):
            values = keras.ops.convert_to_numpy(weight)
            weight.assign(rng.normal(0, values.std(), values.shape).astype("float32"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--texts", type=int, default=20)
    args = parser.parse_args()
    task, rng = load_task(args.model), np.random.default_rng(0)
    chosen = [example for example in read_examples(args.test, "classification") if len(example.text.split()) in range(8, 25)]
    answers = task([example.text for example in chosen[: 2 * args.texts]])
    right = [example for example, answer in zip(chosen, answers, strict=False) if answer.label == example.label][: args.texts]
    texts, targets = [example.text for example in right], [example.label for example in right]
    others = [next(label for label in task.labels if label != target) for target in targets]
    found = {method: scores_of(task, texts, method, targets) for method in METHODS}
    other = {method: scores_of(task, texts, method, others) for method in METHODS}
    words = [attribute(task, [text], method="rollout")[0].words for text in texts]
    base = margins(task, texts, targets)

    def drop(scores):
        left = [masked(task, text, of, np.argsort(-s)[:3]) for text, of, s in zip(texts, words, scores, strict=True)]
        after = margins(task, left, targets)
        return float((base - after).mean()), float((after < 0).mean())

    random = [rng.normal(size=len(of)) for of in words]
    print(f"{len(texts)} texts, mean log odds of the answer {base.mean():.2f}")
    print(f"three random words masked: falls by {drop(random)[0]:.2f}, changed answers {drop(random)[1]:.2f}")
    carried = defaultdict(list)
    for of, scores, target in zip(words, found["integrated_gradients"], targets, strict=True):
        for word, score in zip(of, scores, strict=True):
            carried[target, word.word].append(score)
    for label in task.labels:
        mean = {word: np.mean(scores) for (of, word), scores in carried.items() if of == label and len(scores) > 2}
        best = sorted(mean, key=mean.get, reverse=True)[:8]
        print(f"integrated gradients, for {label}:", ", ".join(f"{word} {mean[word]:+.2f}" for word in best))
    drops, after = {method: drop(found[method]) for method in METHODS}, {}  # before anything is newly initialised
    for part, pattern in (("head", "Classification"), ("blocks", "Encoder-")):
        initialise(task, pattern, rng)
        after[part] = {method: scores_of(task, texts, method, targets) for method in METHODS}
    print(f"{'method':<22}{'drop':>7}{'changed':>9}{'label':>7}{'head':>7}{'blocks':>8}")
    for method in METHODS:
        label = correlation(found[method], other[method])
        head, blocks = (correlation(map(np.abs, found[method]), map(np.abs, after[part][method])) for part in ("head", "blocks"))
        fall, changed = drops[method]
        print(f"{method:<22}{fall:>7.2f}{changed:>9.2f}{label:>7.2f}{head:>7.2f}{blocks:>8.2f}")


if __name__ == "__main__":
    main()
