"""All settings of a fine-tuning, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from keras_bert_rebuild.data.labelled.read_labelled import FORMATS
from keras_bert_rebuild.files.finite import is_number
from keras_bert_rebuild.recipes.settings import check_whole_numbers, plain, settings_from_dict
from keras_bert_rebuild.tasks.reranking_objectives import OBJECTIVES as RERANKING_OBJECTIVES
from keras_bert_rebuild.tasks.sentence_objectives import OBJECTIVES

DTYPES = ("float32", "mixed_bfloat16")
BALANCED = "balanced"
# The minimum of every whole number.
MINIMUMS = {"epochs": 1, "steps": 1, "batch_size": 1, "max_len": 8, "stride": 0, "evaluate_steps": 1, "log_steps": 1, "patience": 1}
MINIMUMS |= {"save_steps": 1, "lora_rank": 1, "seed": 0, "workers": 0, "negatives": 1, "chunk": 1}
OPTIONAL = ("steps", "max_len", "stride", "evaluate_steps", "patience", "lora_rank", "negatives", "chunk")
# Fields for some of the tasks, which `FinetuneTask.options` lists.
OF_SOME = (
    "temperature",
    "learned_temperature",
    "symmetric",
    "matryoshka_dims",
    "matryoshka_weights",
    "chunk",
    "guide",
    "false_negative_margin",
    "query_prompt",
    "document_prompt",
    "negatives",
    "positive_weight",
    "flops",
)
# Fractions, and whether they may be None.
FRACTIONS = {"warmup": False, "weight_decay": False, "layer_decay": False, "dropout": True}


def all_objectives() -> tuple[str, ...]:
    """The objectives of all tasks, including user-defined ones."""
    return tuple(dict.fromkeys((*OBJECTIVES, *RERANKING_OBJECTIVES)))


@dataclass(frozen=True, kw_only=True)
class FinetuneSettings:
    """The settings of a fine-tuning: fields of a YAML file, options of `keras-bert finetune`, arguments of `finetune`.

    Reference: Devlin et al., 2019, appendix A.3, for the ranges of rate, batch size and epochs.
    """

    epochs: int = 3
    """Passes over the examples."""

    steps: int | None = None
    """Optimizer steps, instead of epochs."""

    batch_size: int = 32
    """Rows of an optimizer step; a text that is longer than max_len has several rows."""

    learning_rate: float = 3e-5
    """The maximum rate; BERT's authors chose among 2e-5, 3e-5 and 5e-5."""

    head_rate: float = 1.0
    """Rate of the newly initialised last layer of the head, as a multiple of learning_rate."""

    warmup: float = 0.1
    """Fraction of the steps during which the rate rises; then it falls linearly to 0."""

    weight_decay: float = 0.01
    """Fraction of a weight that is subtracted at a rate of 1; biases and norms are not decayed."""

    layer_decay: float = 1.0
    """Rate of a block, as a fraction of that of the block above it, such as 0.9."""

    clip_norm: float | None = 1.0
    """Maximum norm of the gradient of all weights; None for no limit."""

    dropout: float | None = None
    """Rate of all dropouts; None for the rates of the model."""

    max_len: int | None = None
    """Maximum number of tokens in a row; longer texts are split into windows. None: the maximum of the model, at most 512."""

    stride: int | None = None
    """Tokens that a window shares with the next; None: a quarter of max_len."""

    class_weights: dict | str | None = None
    """Weights of labels in the loss, such as rare=3; "balanced" for weights that give all labels the same influence."""

    metric: str | None = None
    """The score that chooses the best checkpoint; None for the usual one of the task."""

    evaluate_steps: int | None = None
    """Optimizer steps between evaluations; None: those of an epoch."""

    patience: int | None = None
    """Evaluations without a better score after which the training stops; None: it never stops early."""

    lora_rank: int | None = None
    """Train adapters of this rank and the head instead of all weights."""

    freeze: Sequence[str] = ()
    """Regular expressions over variable paths; variables whose path matches do not change, such as ^Embedding- for embeddings."""

    objective: str | None = None
    """What is learned. similarity: "cosine" (None, if all pairs have scores), to fit the scores, "cosent", to have their order, or
    "in_batch_negatives" (None, if not), to tell pairs from each other. retrieval, sparse-retrieval and late-interaction:
    "in_batch_negatives" (None), to find the positive among all texts of the batch, "margin_mse" or "distillation", to agree with a
    teacher's scores. labelled-similarity: "triplet" (None) or "contrastive". rerank: "binary", "graded", "pairwise", "listwise" or
    "lambda", or "margin_mse", "mse" or "list_net" for the scores of a teacher; None for the usual one of the examples."""

    temperature: float | None = None
    """What cosines are divided by; None for the usual number of the objective, such as 0.05."""

    learned_temperature: bool = False
    """For retrieval and labelled-similarity: learn the temperature, too, at 100 times the rate."""

    symmetric: bool = False
    """For retrieval: find also the query of every positive among those of the batch."""

    matryoshka_dims: Sequence[int] | None = None
    """Train prefixes of vectors too, of these numbers of dimensions, such as 384 128 64."""

    matryoshka_weights: Sequence[float] | None = None
    """The weight of the loss of each of matryoshka_dims; None for 1."""

    chunk: int | None = None
    """For retrieval and labelled-similarity: rows that the encoder computes at a time, so that memory does not depend on the batch,
    at a third more computation; None for all."""

    guide: str | None = None
    """For retrieval: the folder of a model of vectors; texts that it finds nearer to a query than its positive are no negatives."""

    false_negative_margin: float | None = None
    """For retrieval: texts are no negatives whose cosine is above that of the positive by more than this, by the guide if there is
    one, else by the model that is trained."""

    query_prompt: str | None = None
    """For retrieval: what queries begin with, such as "query: "; the saved model has it, too."""

    document_prompt: str | None = None
    """For retrieval: what texts to find begin with."""

    crf: bool = False
    """For token_classification: end the head in a conditional random field, which learns, at 100 times the rate, which tags follow
    each other."""

    dtype: str = "float32"
    """"float32", or "mixed_bfloat16" for products in bfloat16 and weights in float32."""

    jit_compile: bool | str = "auto"
    """Whether steps are compiled with XLA; "auto": as Keras does, on JAX, and on TensorFlow where there is an accelerator."""

    columns: dict | None = None
    """The names of the parts of an example in the files, such as text=utterance, or the numbers of their columns, from 1."""

    header: bool | None = None
    """Whether the first row of a table names its columns; None to infer it from the names."""

    format: str | None = None
    """The format of the files; None to infer it from their names."""

    log_steps: int = 10
    """Optimizer steps between rows of metrics.csv."""

    save_steps: int = 500
    """Optimizer steps between checkpoints, from which a stopped run resumes; they are deleted when it is over."""

    workers: int = 0
    """Threads that make batches while the model trains; 0 makes them between the steps."""

    seed: int = 0
    """The seed of the new head, the order of the examples and dropout."""

    negatives: int | None = None
    """For rerank, sparse_retrieval and late_interaction: texts of a query in a step, besides the one to find; None: as many as are
    given, at most 7; for rerank 4 if none are, which are drawn."""

    positive_weight: float | None = None
    """For rerank with the objectives "binary" and "graded": weight of relevant texts; None for 1."""

    flops: Sequence[float] | None = None
    """For sparse_retrieval: weights of the words of queries and of documents in the loss; None for 5e-5 and 3e-5."""

    def __post_init__(self) -> None:
        check_whole_numbers(self, MINIMUMS, OPTIONAL)
        for name, optional in FRACTIONS.items():
            value = getattr(self, name)
            if not (value is None and optional) and not (is_number(value) and 0 <= value <= 1):
                raise ValueError(f"{name} must be a number from 0 to 1; got {value!r}.")
        for name in ("learning_rate", "head_rate", "clip_norm", "temperature", "positive_weight"):
            value = getattr(self, name)
            optional = name in ("clip_norm", "temperature", "positive_weight")
            if not (value is None and optional) and not (is_number(value) and value > 0):
                raise ValueError(f"{name} must be a number above 0; got {value!r}.")
        for name, values in (
            ("dtype", DTYPES),
            ("objective", (*all_objectives(), None)),
            ("jit_compile", (True, False, "auto")),
            ("format", (*FORMATS, None)),
            ("header", (True, False, None)),
            ("crf", (True, False)),
            ("learned_temperature", (True, False)),
            ("symmetric", (True, False)),
        ):
            if getattr(self, name) not in values:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, values))}; got {getattr(self, name)!r}.")
        if self.flops is not None:
            numbers = self.flops if isinstance(self.flops, (list, tuple)) else ()
            if len(numbers) != 2 or not all(is_number(weight) and weight >= 0 for weight in numbers):
                raise ValueError(f"flops must be two numbers from 0, for queries and for documents; got {self.flops!r}.")
            object.__setattr__(self, "flops", tuple(numbers))
        if isinstance(self.freeze, str) or not isinstance(self.freeze, (list, tuple)):
            raise ValueError(f"freeze must be a list of regular expressions; got {self.freeze!r}.")
        object.__setattr__(self, "freeze", tuple(self.freeze))
        if not (self.columns is None or isinstance(self.columns, dict)):
            raise ValueError(f"columns must be names or numbers by part; got {self.columns!r}.")
        weights = self.class_weights
        if not (weights is None or weights == BALANCED or isinstance(weights, dict)):
            raise ValueError(f"class_weights must be weights by label, or {BALANCED!r}; got {weights!r}.")
        if isinstance(weights, dict) and not all(is_number(weight) and weight > 0 for weight in weights.values()):
            raise ValueError(f"class_weights must be numbers above 0; got {weights!r}.")

        self._check_vectors()

    def _check_vectors(self):
        """Refuse invalid Matryoshka dimensions, margins and prompts."""
        dims, weights = self.matryoshka_dims, self.matryoshka_weights
        if dims is not None and not (isinstance(dims, (list, tuple)) and dims and all(isinstance(n, int) and n > 0 for n in dims)):
            raise ValueError(f"matryoshka_dims must be a list of whole numbers of at least 1; got {dims!r}.")
        if weights is not None and not (
            isinstance(weights, (list, tuple)) and len(weights) == len(dims or ()) and all(is_number(x) and x > 0 for x in weights)
        ):
            raise ValueError(f"matryoshka_weights must be a number above 0 for each of matryoshka_dims; got {weights!r}.")
        margin = self.false_negative_margin
        if not (margin is None or is_number(margin)):
            raise ValueError(f"false_negative_margin must be a number; got {margin!r}.")
        for name in ("guide", "query_prompt", "document_prompt"):
            value = getattr(self, name)
            if not (value is None or isinstance(value, (str, Path))):
                raise ValueError(f"{name} must be a text; got {value!r}.")

    def resolved(self) -> dict[str, Any]:
        """The settings as plain values, as saved in a run's folder."""
        return plain(asdict(self))

    @classmethod
    def of(cls, settings: "FinetuneSettings | dict[str, Any] | None" = None, **changes: Any) -> "FinetuneSettings":
        """Settings from settings, a dictionary of them or the defaults; `changes` override single fields."""
        if settings is None or isinstance(settings, dict):
            return cls.from_dict({**(settings or {}), **changes})
        return replace(settings, **changes)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Settings from plain values, such as those of a YAML file.

        Raises:
            ValueError: a name is unknown; the error lists the nearest known ones.
        """
        return settings_from_dict(cls, values, "a fine-tuning")
