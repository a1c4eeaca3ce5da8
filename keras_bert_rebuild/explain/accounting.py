"""Parameters, bytes and operations of a model, step by step, computed from its config without building the model."""

from dataclasses import dataclass
from typing import Any

from keras_bert_rebuild.anatomy.part import filled_in, letters_of, value
from keras_bert_rebuild.anatomy.parts import parts_of
from keras_bert_rebuild.config import BertConfig, check_heads
from keras_bert_rebuild.explain import explain_table
from keras_bert_rebuild.explain.record import Record

# Dtype policy to the bytes of a weight and of an activation.
DTYPES = {
    "float32": (4, 4),
    "bfloat16": (2, 2),
    "float16": (2, 2),
    "mixed_bfloat16": (4, 2),
    "mixed_float16": (4, 2),
    "float64": (8, 8),
}


def steps_of(config, heads):
    """The steps of a model, in the order of the article.

    Args:
        config: a `BertConfig`.
        heads: names of heads, from `config.HEADS`.

    Returns:
        Triples, see `parts_of`.

    Raises:
        ValueError: a head does not exist, or a classification head has no labels.
    """
    check_steps(config, heads)
    return parts_of(config.encoder(), heads)


def check_steps(config, heads):
    """Refuse the heads that `steps_of` refuses."""
    check_heads(heads)
    if not config.labels and any(head.endswith("classification") for head in heads):
        raise ValueError("a classification head must have labels in the config; it has none.")


@dataclass(frozen=True)
class StepAccount:
    """The numbers of one step. Parameters of a step in a block are given per block and for all blocks."""

    article: int | None
    """Its step in the article; None if the article's model does not have it."""

    part: str
    """Embedding, encoder block, heads, or other layers."""

    name: str
    """Its name."""

    layer: str
    """The layer or layers of the model; `{n}` is the number of the block."""

    formula: str
    """Parameters of one block, in letters."""

    numbers: str
    """The formula with numbers instead of letters."""

    each: int
    """The value of the formula."""

    blocks: int
    """Number of blocks with distinct weights that have the step; 1 outside blocks."""

    runs: int
    """How often it runs: more often than `blocks` if weights are shared."""

    params: int
    """Parameters of all blocks."""

    share: float
    """Fraction of the parameters of the model, in [0, 1]."""

    bytes: int
    """Bytes of the parameters."""

    flops_formula: str = ""
    """Operations of one run, in letters."""

    forward: int = 0
    """FLOPs (additions and multiplications of matrix products) of a forward pass, all runs."""

    train: int = 0
    """FLOPs of a training step: three times those of the forward pass, with the gradients of inputs and weights."""

    kept: int = 0
    """Bytes of activations that a training step saves for its backward pass, all runs."""


@dataclass(frozen=True)
class Explanation(Record):
    """A model step by step. Prints as a table; a notebook shows Markdown."""

    config: BertConfig
    """The config that was explained."""

    heads: tuple
    """The heads."""

    letters: dict
    """Letter to number."""

    dtype: str
    """The dtype policy that determines bytes."""

    steps: tuple
    """`StepAccount`s, in the order of the article."""

    corrections: tuple
    """Corrections of articles about BERT, one sentence each."""

    def total(self, name: str) -> int:
        """The sum of a field over all steps: "params", "bytes", "forward", "train" or "kept"."""
        return sum(getattr(step, name) for step in self.steps)

    def to_tables(self, width: int = 100) -> Any:
        """Tables of letters, parameters, work and corrections, for `rich`."""
        return explain_table.as_tables(self, width)

    def to_markdown(self) -> str:
        """The tables in Markdown."""
        return explain_table.as_markdown(self)

    def to_json(self) -> dict[str, Any]:
        """The numbers, without rounding."""
        return explain_table.explanation_values(self)

    def __str__(self) -> str:
        return self.to_text()

    def _repr_markdown_(self) -> str:
        return self.to_markdown()


def account(config, heads=("mlm", "nsp"), batch=1, length=None, predictions=None, dtype="float32", further=()):
    """Count every parameter and operation of a config.

    Args:
        config: a `BertConfig`.
        heads: names of heads, from `config.HEADS`.
        batch: texts per batch.
        length: tokens per text; None for the maximum length of the model.
        predictions: tokens per text that the MLM head predicts; None for all.
        dtype: a key of `DTYPES`.
        further: layers of a live model that are not steps, pairs of a name and the number of parameters.

    Returns:
        The `StepAccount`s, a tuple, and a dictionary from letter to number.

    Raises:
        ValueError: an argument is out of range or does not fit the config.
    """
    length = config.max_length if length is None else length
    predictions = length if predictions is None else predictions
    for name, number, maximum in (
        ("batch", batch, None),
        ("length", length, config.max_length),
        ("predictions", predictions, length),
    ):
        if number < 1 or (maximum is not None and number > maximum):
            limit = "" if maximum is None else f" and at most {maximum}"
            raise ValueError(f"{name} must be at least 1{limit}; got {number}.")
    if config.hidden_size % config.num_attention_heads:
        raise ValueError(f"num_attention_heads must divide hidden_size={config.hidden_size}; got {config.num_attention_heads}.")
    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}; got {dtype!r}.")
    letters = letters_of(config.encoder(), batch, length, predictions)
    weight_bytes, value_bytes = DTYPES[dtype]
    steps = steps_of(config, heads)
    total = sum(step.count(letters) * blocks for step, blocks, _ in steps) + sum(count for _, count in further)
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
    for name, count in further:
        numbers = {"each": count, "blocks": 1, "runs": 1, "params": count, "share": count / total, "bytes": count * weight_bytes}
        accounts.append(StepAccount(article=None, part="Other layers", name=name, layer=name, formula="", numbers="", **numbers))
    return tuple(accounts), letters
