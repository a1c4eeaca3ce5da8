"""All settings of a fine-tuning, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from keras_bert_rebuild.data.labelled.read_labelled import FORMATS
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.recipes.settings import check_whole_numbers, plain, settings_from_dict
from keras_bert_rebuild.tasks.objectives import OBJECTIVES, RERANKING_OBJECTIVES

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
    """Passes over the training examples."""

    steps: int | None = None
    """Optimizer steps, instead of `epochs` (default: as many as the epochs have)."""

    batch_size: int = 32
    """Examples per optimizer step; a text longer than `max_len` counts once for each of its windows."""

    learning_rate: float = 3e-5
    """Peak learning rate; BERT's authors tried 2e-5, 3e-5 and 5e-5."""

    new_head: bool = False
    """Initialise the head, and use no settings of a trained task's folder (default: a head of the same task and labels is kept, and
    of a retrieval model everything above the encoder)."""

    head_rate: float = 1.0
    """Learning rate of the task head, as a multiple of `learning_rate`."""

    warmup: float = 0.1
    """Learning rate warm-up as a fraction of the steps; afterwards the rate decays linearly to 0."""

    weight_decay: float = 0.01
    """Weight decay (decoupled, as in AdamW); biases and normalisation parameters are not decayed."""

    layer_decay: float = 1.0
    """Layer-wise learning rate decay: each block learns at this fraction of the rate of the block above it, such as 0.9; 1 for
    none."""

    clip_norm: float | None = 1.0
    """Maximum global gradient norm."""

    dropout: float | None = None
    """Dropout rate everywhere in the model (default: the model's own rates)."""

    max_len: int | None = None
    """Maximum sequence length in tokens; longer texts are split into overlapping windows (default: the model's maximum, at most
    512)."""

    stride: int | None = None
    """Tokens by which successive windows of a long text overlap (default: a quarter of `max_len`)."""

    class_weights: dict | str | None = None
    """Weights of the labels in the loss, such as rare=3, or balanced for weights inversely proportional to label frequencies
    (default: all 1)."""

    metric: str | None = None
    """Metric that selects the best checkpoint (default: the main metric of the task)."""

    evaluate_steps: int | None = None
    """Optimizer steps between evaluations (default: once per epoch)."""

    patience: int | None = None
    """Early stopping: evaluations without improvement before training ends (default: no early stopping)."""

    lora_rank: int | None = None
    """Train LoRA adapters of this rank and the task head instead of all weights (default: all weights)."""

    freeze: Sequence[str] = ()
    """Regular expressions; variables whose path matches one are frozen, such as ^Embedding- for the embeddings (default: none)."""

    objective: str | None = None
    """Training objective. similarity: cosine, cosent or in_batch_negatives (default: cosine if every pair has a score, otherwise
    in_batch_negatives). retrieval, sparse-retrieval and late-interaction: in_batch_negatives (default), margin_mse or distillation.
    labelled-similarity: triplet (default) or contrastive. rerank: binary, graded, pairwise, listwise or lambda, or for the scores
    of a teacher margin_mse, mse or list_net (default: chosen by the examples)."""

    temperature: float | None = None
    """Temperature that divides cosine similarities in the loss, such as 0.05 (default: that of the objective)."""

    learned_temperature: bool = False
    """Learn the temperature as well, at 100 times the learning rate (retrieval, labelled-similarity)."""

    symmetric: bool = False
    """Add the loss in the other direction: for each positive, find its query in the batch (retrieval)."""

    matryoshka_dims: Sequence[int] | None = None
    """Dimensions of prefixes of the vectors that are trained too (Matryoshka), such as 384 128 64 (default: none)."""

    matryoshka_weights: Sequence[float] | None = None
    """Weights of the losses of the Matryoshka dimensions (default: all 1)."""

    chunk: int | None = None
    """Encode this many rows at a time, so that memory does not grow with the batch (gradient caching), for about a third more
    computation (retrieval, labelled-similarity; default: all at once)."""

    guide: str | None = None
    """Folder of an embedding model: texts that it ranks above the positive are not used as negatives (retrieval; default: none)."""

    false_negative_margin: float | None = None
    """Texts whose cosine similarity exceeds the positive's by more than this are not used as negatives, judged by the guide or else
    by the trained model itself (retrieval; default: all are used)."""

    query_prompt: str | None = None
    """Prompt in front of every query, such as "query: "; saved with the model (retrieval; default: none)."""

    document_prompt: str | None = None
    """Prompt in front of every document; saved with the model (retrieval; default: none)."""

    crf: bool = False
    """Add a conditional random field to the head; its transition scores learn at 100 times the learning rate
    (token-classification)."""

    dtype: str = "float32"
    """Precision: float32, or mixed_bfloat16 (computation in bfloat16, weights in float32)."""

    jit_compile: bool | str = "auto"
    """Compile training steps with XLA; auto compiles on JAX, and on TensorFlow with an accelerator."""

    columns: dict | None = None
    """Columns of the files, by name or number from 1, such as text=utterance label=2 (default: the usual names, or the order text,
    second text, label)."""

    header: bool | None = None
    """The first row of a table holds the column names (default: detected)."""

    format: str | None = None
    """Format of the files (default: by the file name)."""

    log_steps: int = 10
    """Optimizer steps between rows of metrics.csv."""

    save_steps: int = 500
    """Optimizer steps between the checkpoints from which an interrupted run resumes; they are deleted at the end."""

    workers: int = 0
    """Threads that prepare batches during training; 0 prepares them between steps."""

    seed: int = 0
    """Random seed of the new head, the order of the examples and dropout."""

    negatives: int | None = None
    """Negatives per query in each step (rerank, sparse-retrieval, late-interaction; default: as many as the examples have, at most
    7; for rerank without any, 4 random ones)."""

    positive_weight: float | None = None
    """Weight of relevant texts in the binary and graded objectives (rerank; default: 1)."""

    flops: Sequence[float] | None = None
    """Weights of the FLOPS regularisation of queries and of documents (sparse-retrieval; default: 5e-5 3e-5)."""

    def __post_init__(self) -> None:
        check_whole_numbers(self, MINIMUMS, OPTIONAL)
        for name, optional in FRACTIONS.items():
            value = getattr(self, name)
            if not (value is None and optional) and not (is_number(value) and 0 <= value <= 1):
                raise ValueError(f"{name} must be a number from 0 to 1; got {value!r:.80}.")
        for name in ("learning_rate", "head_rate", "clip_norm", "temperature", "positive_weight"):
            value = getattr(self, name)
            optional = name in ("clip_norm", "temperature", "positive_weight")
            if not (value is None and optional) and not (is_number(value) and value > 0):
                raise ValueError(f"{name} must be a number above 0; got {value!r:.80}.")
        for name, values in (
            ("dtype", DTYPES),
            ("objective", (*all_objectives(), None)),
            ("jit_compile", (True, False, "auto")),
            ("format", (*FORMATS, None)),
            ("header", (True, False, None)),
            ("crf", (True, False)),
            ("new_head", (True, False)),
            ("learned_temperature", (True, False)),
            ("symmetric", (True, False)),
        ):
            if getattr(self, name) not in values:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, values))}; got {getattr(self, name)!r:.80}.")
        if self.flops is not None:
            numbers = self.flops if isinstance(self.flops, (list, tuple)) else ()
            if len(numbers) != 2 or not all(is_number(weight) and weight >= 0 for weight in numbers):
                raise ValueError(f"flops must be two numbers from 0, for queries and for documents; got {self.flops!r:.80}.")
            object.__setattr__(self, "flops", tuple(numbers))
        if isinstance(self.freeze, str) or not isinstance(self.freeze, (list, tuple)):
            raise ValueError(f"freeze must be a list of regular expressions; got {self.freeze!r:.80}.")
        object.__setattr__(self, "freeze", tuple(self.freeze))
        if not (self.columns is None or isinstance(self.columns, dict)):
            raise ValueError(f"columns must be names or numbers by part; got {self.columns!r:.80}.")
        weights = self.class_weights
        if not (weights is None or weights == BALANCED or isinstance(weights, dict)):
            raise ValueError(f"class_weights must be weights by label, or {BALANCED!r}; got {weights!r:.80}.")
        if isinstance(weights, dict) and not all(is_number(weight) and weight > 0 for weight in weights.values()):
            raise ValueError(f"class_weights must be numbers above 0; got {weights!r:.80}.")

        self._check_vectors()

    def _check_vectors(self):
        """Refuse invalid Matryoshka dimensions, margins and prompts."""
        dims, weights = self.matryoshka_dims, self.matryoshka_weights
        if dims is not None and not (isinstance(dims, (list, tuple)) and dims and all(isinstance(n, int) and n > 0 for n in dims)):
            raise ValueError(f"matryoshka_dims must be a list of whole numbers of at least 1; got {dims!r:.80}.")
        if weights is not None and not (
            isinstance(weights, (list, tuple)) and len(weights) == len(dims or ()) and all(is_number(x) and x > 0 for x in weights)
        ):
            raise ValueError(f"matryoshka_weights must be a number above 0 for each of matryoshka_dims; got {weights!r:.80}.")
        margin = self.false_negative_margin
        if not (margin is None or is_number(margin)):
            raise ValueError(f"false_negative_margin must be a number; got {margin!r:.80}.")
        for name in ("guide", "query_prompt", "document_prompt"):
            value = getattr(self, name)
            if not (value is None or isinstance(value, (str, Path))):
                raise ValueError(f"{name} must be a text; got {value!r:.80}.")

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
