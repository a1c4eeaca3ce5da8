"""All settings of a fine-tuning, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from keras_bert_rebuild.data.labelled.read_labelled import FORMATS
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.recipes.run_log import LOGS
from keras_bert_rebuild.recipes.settings import check_settings, is_whole, plain, setting, settings_from_dict
from keras_bert_rebuild.tasks.objectives import OBJECTIVES, RERANKING_OBJECTIVES

DTYPES = ("float32", "mixed_bfloat16")
BALANCED = "balanced"

# What the dimensions of Matryoshka vectors and the weights of the FLOPS regularisation are, for errors.
OF_DIMS = "a list of whole numbers of at least 1"
OF_FLOPS = "two numbers from 0, for queries and for documents"


def all_objectives() -> tuple[str, ...]:
    """The objectives of all tasks, including user-defined ones."""
    return tuple(dict.fromkeys((*OBJECTIVES, *RERANKING_OBJECTIVES)))


def are_sizes(value):
    """Whether a value is a list of whole numbers of at least 1."""
    return isinstance(value, (list, tuple)) and bool(value) and all(is_whole(size) and size > 0 for size in value)


def are_weights(value):
    """Whether a value is a list of two numbers of at least 0."""
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(is_number(weight) and weight >= 0 for weight in value)


@dataclass(frozen=True, kw_only=True)
class FinetuneSettings:
    """The settings of a fine-tuning: fields of a YAML file, options of `keras-bert finetune`, arguments of `finetune`.

    Settings `of_some` are those of some tasks, whose `FinetuneTask.options` list them.

    Reference: Devlin et al., 2019, appendix A.3, for the ranges of rate, batch size and epochs.
    """

    epochs: int = setting(3, least=1)
    """Passes over the training examples."""

    steps: int | None = setting(None, least=1)
    """Optimizer steps, instead of `epochs` (default: as many as the epochs have)."""

    batch_size: int = setting(32, least=1)
    """Examples per optimizer step; a text longer than `max_len` counts once for each of its windows."""

    learning_rate: float = setting(3e-5, above=0)
    """Peak learning rate; BERT's authors tried 2e-5, 3e-5 and 5e-5."""

    new_head: bool = False
    """Initialise the head, and use no settings of a trained task's folder (default: a head of the same task and labels is kept, and
    of a retrieval model everything above the encoder)."""

    head_rate: float = setting(1.0, above=0)
    """Learning rate of the task head, as a multiple of `learning_rate`."""

    warmup: float = setting(0.1, most=1)
    """Learning rate warm-up as a fraction of the steps; afterwards the rate decays linearly to 0."""

    weight_decay: float = setting(0.01, most=1)
    """Weight decay (decoupled, as in AdamW); biases and normalisation parameters are not decayed."""

    layer_decay: float = setting(1.0, most=1)
    """Layer-wise learning rate decay: each block learns at this fraction of the rate of the block above it, such as 0.9; 1 for
    none."""

    clip_norm: float | None = setting(1.0, above=0)
    """Maximum global gradient norm."""

    dropout: float | None = setting(None, most=1)
    """Dropout rate everywhere in the model (default: the model's own rates)."""

    max_len: int | None = setting(None, least=8)
    """Maximum sequence length in tokens; longer texts are split into overlapping windows (default: the model's maximum, at most
    512)."""

    stride: int | None = setting(None, least=0)
    """Tokens by which successive windows of a long text overlap (default: a quarter of `max_len`)."""

    class_weights: dict | str | None = None
    """Weights of the labels in the loss, such as rare=3, or balanced for weights inversely proportional to label frequencies
    (default: all 1)."""

    metric: str | None = None
    """Metric that selects the best checkpoint (default: the main metric of the task)."""

    evaluate_steps: int | None = setting(None, least=1)
    """Optimizer steps between evaluations (default: once per epoch)."""

    patience: int | None = setting(None, least=1)
    """Early stopping: evaluations without improvement before training ends (default: no early stopping)."""

    lora_rank: int | None = setting(None, least=1)
    """Train LoRA adapters of this rank and the task head instead of all weights (default: all weights)."""

    freeze: Sequence[str] = setting((), words="a list of regular expressions")
    """Regular expressions; variables whose path matches one are frozen, such as ^Embedding- for the embeddings (default: none)."""

    objective: str | None = setting(None, choices=lambda: (*all_objectives(), None))
    """Training objective. similarity: cosine, cosent or in_batch_negatives (default: cosine if every pair has a score, otherwise
    in_batch_negatives). retrieval, sparse-retrieval and late-interaction: in_batch_negatives (default), margin_mse or distillation.
    labelled-similarity: triplet (default) or contrastive. rerank: binary, graded, pairwise, listwise or lambda, or for the scores
    of a teacher margin_mse, mse or list_net (default: chosen by the examples)."""

    temperature: float | None = setting(None, above=0, of_some=True)
    """Temperature that divides cosine similarities in the loss, such as 0.05 (default: that of the objective)."""

    learned_temperature: bool = setting(False, of_some=True)
    """Learn the temperature as well, at 100 times the learning rate (retrieval, labelled-similarity)."""

    symmetric: bool = setting(False, of_some=True)
    """Add the loss in the other direction: for each positive, find its query in the batch (retrieval)."""

    matryoshka_dims: Sequence[int] | None = setting(None, accepts=are_sizes, words=OF_DIMS, of_some=True)
    """Dimensions of prefixes of the vectors that are trained too (Matryoshka), such as 384 128 64 (default: none)."""

    matryoshka_weights: Sequence[float] | None = setting(None, words="a number above 0 for each of matryoshka_dims", of_some=True)
    """Weights of the losses of the Matryoshka dimensions (default: all 1)."""

    chunk: int | None = setting(None, least=1, of_some=True)
    """Encode this many rows at a time, so that memory does not grow with the batch (gradient caching), for about a third more
    computation (retrieval, labelled-similarity; default: all at once)."""

    guide: str | None = setting(None, of_some=True)
    """Folder of an embedding model: texts that it ranks above the positive are not used as negatives (retrieval; default: none)."""

    false_negative_margin: float | None = setting(None, of_some=True)
    """Texts whose cosine similarity exceeds the positive's by more than this are not used as negatives, judged by the guide or else
    by the trained model itself (retrieval; default: all are used)."""

    query_prompt: str | None = setting(None, of_some=True)
    """Prompt in front of every query, such as "query: "; saved with the model (retrieval; default: none)."""

    document_prompt: str | None = setting(None, of_some=True)
    """Prompt in front of every document; saved with the model (retrieval; default: none)."""

    crf: bool = False
    """Add a conditional random field to the head; its transition scores learn at 100 times the learning rate
    (token-classification)."""

    dtype: str = setting("float32", choices=DTYPES)
    """Precision: float32, or mixed_bfloat16 (computation in bfloat16, weights in float32)."""

    jit_compile: bool | str = setting("auto", choices=(True, False, "auto"))
    """Compile training steps with XLA; auto compiles on JAX, and on TensorFlow with an accelerator."""

    columns: Mapping[str, Any] | None = setting(None, words="names or numbers by part")
    """Columns of the files, by name or number from 1, such as text=utterance label=2 (default: the usual names, or the order text,
    second text, label)."""

    header: bool | None = setting(None, choices=(True, False, None))
    """The first row of a table holds the column names (default: detected)."""

    format: str | None = setting(None, choices=(*FORMATS, None))
    """Format of the files (default: by the file name)."""

    log_steps: int = setting(10, least=1)
    """Optimizer steps between rows of metrics.csv."""

    log_to: str | None = setting(None, choices=(*LOGS, None))
    """Log the rows of metrics.csv to TensorBoard, MLflow or Weights & Biases, too, where that is installed (default: to none)."""

    save_steps: int = setting(500, least=1)
    """Optimizer steps between the checkpoints from which an interrupted run resumes; they are deleted at the end."""

    workers: int = setting(0, least=0)
    """Threads that prepare batches during training; 0 prepares them between steps."""

    seed: int = setting(0, least=0)
    """Random seed of the new head, the order of the examples and dropout."""

    negatives: int | None = setting(None, least=1, of_some=True)
    """Negatives per query in each step (rerank, sparse-retrieval, late-interaction; default: as many as the examples have, at most
    7; for rerank without any, 4 random ones)."""

    positive_weight: float | None = setting(None, above=0, of_some=True)
    """Weight of relevant texts in the binary and graded objectives (rerank; default: 1)."""

    flops: Sequence[float] | None = setting(None, accepts=are_weights, words=OF_FLOPS, of_some=True)
    """Weights of the FLOPS regularisation of queries and of documents (sparse-retrieval; default: 5e-5 3e-5)."""

    def __post_init__(self) -> None:
        check_settings(self)
        weights = self.class_weights
        if not (weights is None or weights == BALANCED or isinstance(weights, dict)):
            raise ValueError(f"class_weights must be weights by label, or {BALANCED!r}; got {weights!r:.80}.")
        if isinstance(weights, dict) and not all(is_number(weight) and weight > 0 for weight in weights.values()):
            raise ValueError(f"class_weights must be numbers above 0; got {weights!r:.80}.")
        dims, of_dims = self.matryoshka_dims or (), self.matryoshka_weights
        if of_dims is not None and not (len(of_dims) == len(dims) and all(is_number(x) and x > 0 for x in of_dims)):
            raise ValueError(f"matryoshka_weights must be a number above 0 for each of matryoshka_dims; got {of_dims!r:.80}.")

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
