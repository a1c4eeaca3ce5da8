"""Where the parameters, bytes and operations of a model are, worked out from its config: no model is built."""

from dataclasses import dataclass

from keras_bert_rebuild.anatomy.formulas import filled_in, letters_of, value
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.explain.steps import steps_of

# Dtype policy: bytes of a weight, bytes of a value in computation.
DTYPES = {
    "float32": (4, 4),
    "bfloat16": (2, 2),
    "float16": (2, 2),
    "mixed_bfloat16": (4, 2),
    "mixed_float16": (4, 2),
    "float64": (8, 8),
}


@dataclass(frozen=True)
class StepAccount:
    """A step with its numbers. Parameters of a step in a block are given of one block and of all."""

    article: int | None
    """Its number in the article, None for what the article's model does not have."""

    part: str
    """Embedding, encoder block, heads, or other layers."""

    name: str
    """What it is."""

    layer: str
    """The layer or layers of the model, `{n}` for the number of the block."""

    formula: str
    """Its parameters in letters; of one block."""

    numbers: str
    """The formula with the numbers put in."""

    each: int
    """What that comes to."""

    blocks: int
    """Blocks with weights of their own that have the step; 1 outside of blocks."""

    runs: int
    """How often it runs; more often than there are blocks where blocks are shared."""

    params: int
    """Parameters in all."""

    share: float
    """Of the parameters of the model, in [0, 1]."""

    bytes: int
    """Bytes of the parameters."""

    flops_formula: str
    """Matrix operations of one run, in letters."""

    forward: int
    """Multiplications and additions of matrix products in a forward pass, all runs."""

    train: int
    """The same in a training step: the forward pass, and as much again for the gradients of inputs and of weights."""

    kept: int
    """Bytes of values that a training step keeps for its backward pass, all runs."""


@dataclass(frozen=True)
class Explanation:
    """A model step by step. Printed it is a table, in a notebook Markdown."""

    config: BertConfig
    """What was explained."""

    heads: tuple
    """The heads."""

    letters: dict
    """What every letter stands for."""

    dtype: str
    """The dtype policy that bytes are of."""

    steps: tuple
    """`StepAccount`s, in the order of the article."""

    corrections: tuple
    """Where the articles err, a sentence each."""

    def total(self, name: str) -> int:
        """The sum of a number of all steps: "params", "bytes", "forward", "train" or "kept"."""
        return sum(getattr(step, name) for step in self.steps)

    def __str__(self) -> str:
        from keras_bert_rebuild.explain.explain_table import as_text

        return as_text(self)

    def _repr_markdown_(self):
        from keras_bert_rebuild.explain.explain_formats import as_markdown

        return as_markdown(self)


def account(config, heads=("mlm", "nsp"), batch=1, length=None, predictions=None, dtype="float32", others=()):
    """Account for every parameter and operation of a config.

    Args:
        config: a `BertConfig`.
        heads: names of heads, a selection of `config.HEADS`.
        batch: texts of a batch.
        length: tokens of each; None for as many as the model takes.
        predictions: tokens of each whose word the MLM head predicts; None for all.
        dtype: a key of `DTYPES`.
        others: layers of a live model that are no steps, pairs of a name and its parameters.

    Returns:
        The `StepAccount`s as a tuple, and what the letters stand for.

    Raises:
        ValueError: an argument does not fit.
    """
    length = config.max_length if length is None else length
    predictions = length if predictions is None else predictions
    for name, number, most in (("batch", batch, None), ("length", length, config.max_length), ("predictions", predictions, length)):
        if number < 1 or (most is not None and number > most):
            limit = "" if most is None else f" and at most {most}"
            raise ValueError(f"{name} must be at least 1{limit}; got {number}.")
    if config.hidden_size % config.num_attention_heads:
        raise ValueError(f"num_attention_heads must divide hidden_size={config.hidden_size}; got {config.num_attention_heads}.")
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}; got {dtype!r}.")
    letters = letters_of(config.encoder(), batch, length, predictions)
    weight_bytes, value_bytes = DTYPES[dtype]
    steps = steps_of(config, heads)
    total = sum(step.count(letters) * blocks for step, blocks, _ in steps) + sum(count for _, count in others)
    accounts = []
    for step, blocks, runs in steps:
        each = step.count(letters)
        forward = value(step.operations, letters) * runs
        kept = value(step.kept, letters) * value_bytes + value(step.kept_float32, letters) * 4
        accounts.append(
            StepAccount(
                article=step.article,
                part=step.section,
                name=step.name,
                layer=step.layer,
                formula=step.params,
                numbers=filled_in(step.params, letters),
                each=each,
                blocks=blocks,
                runs=runs,
                params=each * blocks,
                share=each * blocks / total,
                bytes=each * blocks * weight_bytes,
                flops_formula=step.operations,
                forward=forward,
                train=3 * forward,
                kept=kept * runs,
            )
        )
    accounts += [_other(name, count, total, weight_bytes) for name, count in others]
    return tuple(accounts), letters


def _other(name, count, total, weight_bytes):
    return StepAccount(
        article=None,
        part="Other layers",
        name=name,
        layer=name,
        formula="",
        numbers="",
        each=count,
        blocks=1,
        runs=1,
        params=count,
        share=count / total,
        bytes=count * weight_bytes,
        flops_formula="",
        forward=0,
        train=0,
        kept=0,
    )
