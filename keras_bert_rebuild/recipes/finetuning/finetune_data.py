"""The examples of a fine-tuning, read and checked before anything is trained or written, and the lengths of their rows."""

from dataclasses import fields

from keras_bert_rebuild.files.printable import printable
from keras_bert_rebuild.kernels import traits
from keras_bert_rebuild.recipes.finetuning.finetune_settings import BALANCED
from keras_bert_rebuild.tasks.registry import finetune_task, task_names
from keras_bert_rebuild.tasks.text_rows import buckets_for, example_name

# Maximum number of lengths on JAX: with the last batch of an epoch, where it stays smaller, a training has at most five shapes.
LENGTHS = 4

# Tokens that MiniLM could train on in the time it takes to compile a training step and a prediction for one length: on two CPU
# cores 5 seconds at 2,000 tokens per second; on an H100, at a million, 7 seconds, or 1.5 to fetch the programs of an earlier run.
PRICE, ACCELERATOR_PRICE = 10_000, 4_000_000


def check_options(spec, settings):
    """Refuse settings that the task does not accept.

    Args:
        spec: a `FinetuneTask`.
        settings: `FinetuneSettings`.

    Raises:
        ValueError: the error names the setting and the task.
    """
    if settings.crf and "crf" not in spec.options:
        raise ValueError(f"crf must be for token_classification, whose tags follow each other; the task is {spec.name}.")
    for field in fields(settings):
        if field.metadata.get("of_some") and getattr(settings, field.name) != field.default and field.name not in spec.options:
            tasks = " or ".join(word for word in task_names() if field.name in finetune_task(word).options)
            raise ValueError(f"{field.name} must be for {tasks}; the task is {spec.name}.")


# What a run says before it trains.
UNDERSTOOD = ("data", "head", "scores")


def understood(task, data_line):
    """What a run says before it trains: `data`, what became of a trained `head`, and which `scores` are which cosines."""
    facts = {"data": data_line} | ({"head": task.head_origin} if task.head_origin else {})
    if getattr(task, "objective", None) == "cosine":
        low, high = task.score_range
        facts["scores"] = f"{low:g} to {high:g} are the cosines 0 to 1"
    return facts


def print_understood(row):
    """Print what a row of a run's report says of what was understood."""
    for name in UNDERSTOOD:
        if name in row:
            print(f"{name:<8} {printable(row[name])}")


def check_examples(examples, spec, source):
    """Refuse examples that cannot be trained on or whose labels cannot be saved.

    Args:
        examples: lists by split: "train" and others.
        spec: a `FinetuneTask`.
        source: where the training examples come from.
    """
    for rows in examples.values():
        check_names(rows)
    check_differ(examples["train"], spec, source)


def check_names(examples):
    """Refuse labels that UTF-8 cannot encode: saving the report and the config would fail after training.

    Raises:
        ValueError: a label cannot be encoded; the error names the example.
    """
    for number, example in enumerate(examples):
        for label in example.labels():
            if isinstance(label, str) and any("\ud800" <= letter <= "\udfff" for letter in label):
                raise ValueError(f"a label must be text that UTF-8 can encode; {example_name(example, number)} has {label!a}.")


def check_differ(examples, spec, source):
    """Refuse examples that all have the same label.

    Raises:
        ValueError: all labels are the same; the error names the file.
    """
    counts = spec.label_counts(examples)
    if counts is not None and len(counts) < 2:
        actual = f"all {len(examples)} of {source} have {next(iter(counts), None)!r}"
        raise ValueError(f"expected examples of at least two labels; {actual}.")


def count_in_training(examples, train):
    """How many examples have the same inputs as a training example, regardless of their labels."""
    seen = {_shown(example) for example in train}
    return sum(_shown(example) in seen for example in examples)


def _shown(example):
    """The texts of an example as a key."""
    return tuple(tuple(value) if isinstance(value, list) else value for value in example.shown().values())


def loss_weights(examples, spec, settings):
    """Loss weights by label, or None: as given, or, if balanced, n / (number of labels · n of the label).

    Raises:
        ValueError: the task has no labels to weight, or no example has a given label.
    """
    weights = settings.class_weights
    if weights is None:
        return None
    counts = spec.label_counts(examples, weighed=True)
    if counts is None:
        raise ValueError(f"class_weights must be for a classification of texts or words; the task is {spec.name}.")
    if weights == BALANCED:
        return {label: counts.total() / (len(counts) * count) for label, count in sorted(counts.items())}
    unknown = [label for label in weights if str(label) not in counts]
    if unknown:
        names = ", ".join(sorted(counts))
        raise ValueError(f"class_weights must be for labels of the examples, {names}; got {', '.join(map(str, unknown))}.")
    return {str(label): float(weight) for label, weight in weights.items()}


def shared_lengths(encoded, settings, max_len):
    """The lengths that rows of training and evaluations are padded to, so that both are compiled for the same shapes.

    On JAX, a shorter training has fewer lengths, since each must save more time than its compilation takes.

    Args:
        encoded: the `Encoded` rows of training, dev and test, by name.
        settings: `FinetuneSettings`.
        max_len: maximum number of tokens in a row.
    """
    epochs = settings.steps * settings.batch_size / len(encoded["train"]) if settings.steps else settings.epochs
    price = (ACCELERATOR_PRICE if traits.runs_on_accelerator() else PRICE) / epochs
    sizes = [len(row) for rows in encoded.values() for row in rows.windows.ids]
    return buckets_for(sizes, max_len, LENGTHS, price)
