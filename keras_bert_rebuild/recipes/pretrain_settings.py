"""Everything that a pretraining run can be told, as data."""

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.finite import is_number
from keras_bert_rebuild.recipes.model_sizes import size_fields
from keras_bert_rebuild.recipes.phase import LEAST as PHASE_LEAST
from keras_bert_rebuild.recipes.phase import Phase, as_phase, check_whole_numbers
from keras_bert_rebuild.recipes.settings_from_dict import plain, settings_from_dict
from keras_bert_rebuild.training.distribution import KINDS

NEXT_SENTENCE = ("nsp", "sop", "none")
MASKING = ("token", "whole_word", "ngram")
OPTIMIZERS = ("adamw", "lamb")
DTYPES = ("float32", "mixed_bfloat16")
# What belongs to a start of a run on some machines, not to the run.
OF_A_START = ("hosts", "host_index", "coordinator")
# The least that may be.
LEAST = {
    **PHASE_LEAST,
    "gradient_accumulation_steps": 1,
    "evaluation_steps": 1,
    "log_steps": 1,
    "keep_checkpoints": 1,
    "seed": 0,
    "warmup_steps": 0,
    "loss_chunk": 1,
    "evaluate_steps": 1,
    "save_steps": 1,
    "model_devices": 1,
    "hosts": 1,
    "host_index": 0,
}
OPTIONAL = (
    "max_predictions",
    "warmup_steps",
    "loss_chunk",
    "evaluate_steps",
    "save_steps",
    "model_devices",
    "hosts",
    "host_index",
)


@dataclass(frozen=True, kw_only=True)
class PretrainSettings:
    """What a pretraining run is: fields of a YAML file, options of `keras-bert pretrain`, arguments of `pretrain`.

    Reference: Devlin et al., 2019, appendix A.2, for the defaults of optimizer and masking.
    """

    model: object = "base"
    """A size (tiny, mini, small, medium, base, large), the path of a config.json, or the fields of a `BertConfig`."""

    init: str | None = None
    """A checkpoint to start from, anything that `from_pretrained` reads; its sizes then replace `model`."""

    steps: int = 100_000
    """Optimizer steps."""

    batch_size: int = 32
    """Examples of an optimizer step, of all micro-batches together."""

    seq_len: int = 128
    """Tokens of an example, special ones included."""

    max_predictions: int | None = None
    """Maximum of positions to predict in an example; None: as many as `mask_rate` needs, plus one."""

    phases: Sequence[Any] = ()
    """Stretches of other lengths, one after the other, each with steps, batch_size, seq_len and max_predictions, instead of these
    four: BERT's was 90 % of the steps at 128 and the rest at 512."""

    gradient_accumulation_steps: int = 1
    """Micro-batches of an optimizer step, each of which counts the same, however many labels it has."""

    next_sentence: str = "nsp"
    """The second task: "nsp", "sop" or "none"."""

    masking: str = "token"
    """What is masked as a whole: "token", "whole_word" or "ngram"."""

    mask_rate: float = 0.15
    """Part of the tokens to predict."""

    short_seq_prob: float = 0.1
    """Part of the examples that are cut to a random length."""

    lengths: Sequence[int] = ()
    """Lengths to pad to where many examples are shorter than `seq_len`, such as [32, 64, 96]: batches then are of examples of about
    the same length. Empty: all are padded to `seq_len`."""

    optimizer: str = "adamw"
    """"adamw" or "lamb"."""

    learning_rate: float = 1e-4
    """The rate at its top."""

    warmup_steps: int | None = None
    """Optimizer steps of rising rate; None: a tenth of all, at most 10,000. It falls to 0 in the end."""

    weight_decay: float = 0.01
    """Share of a weight taken away at a rate of 1; biases and norms keep theirs."""

    layer_decay: float = 1.0
    """Rate of a block, as a part of that of the block above it."""

    clip_norm: float | None = 1.0
    """The longest that the gradient of all weights together may be; None for any."""

    ema: float | None = None
    """How much of the moving average of the weights stays from step to step, such as 0.999; evaluated and saved is the average."""

    dtype: str = "float32"
    """"float32", or "mixed_bfloat16" for products in bfloat16 and weights in float32."""

    jit_compile: bool | str = "auto"
    """Whether steps are compiled with XLA; "auto": as Keras does, on JAX, and on TensorFlow where there is an accelerator."""

    remat: bool = False
    """Compute encoder blocks again for their gradients instead of storing them."""

    loss_chunk: int | None = None
    """Positions whose logits are held at once; None for all."""

    held_out: float = 0.01
    """Part of the documents that are never trained on; evaluated on is what of them is not in training, too. 0 for none."""

    evaluate_steps: int | None = None
    """Optimizer steps between evaluations; None: ten in a run."""

    evaluation_steps: int = 20
    """Batches of an evaluation."""

    log_steps: int = 50
    """Optimizer steps of a row of metrics.csv."""

    save_steps: int | None = None
    """Optimizer steps between checkpoints; None: with the evaluations."""

    keep_checkpoints: int = 3
    """Number of the newest checkpoints to retain, besides the best one."""

    workers: int = 1
    """Threads that make batches while the model trains; 0 makes them in between."""

    verify: bool = True
    """Compare the SHA-256 of the store's files with its index at every start, two seconds for a GB."""

    tensorboard: bool = True
    """Write for TensorBoard, too, where it is installed."""

    seed: int = 0
    """The seed of weights, order, masks and dropout."""

    distribute: str = "auto"
    """The devices: "none", one; "mirrored", all GPUs of a host, on TensorFlow; "data", all devices of all hosts, each a part of the
    batch, on JAX; "model", each a part of the weights, too; "auto", "data" or "mirrored" where there are several."""

    model_devices: int | None = None
    """With "model", devices that share the weights of one replica; None: those of one host."""

    hosts: int | None = None
    """Hosts that train together, each started with the same settings; None for one."""

    host_index: int | None = None
    """The number of this one, from 0 on; None where JAX finds it out, on Cloud TPU, Slurm and Open MPI."""

    coordinator: str | None = None
    """The address of host 0 and a free port of it, address:port; None where JAX finds it out."""

    def __post_init__(self) -> None:
        check_whole_numbers(self, LEAST, OPTIONAL)
        for name, values in (
            ("next_sentence", NEXT_SENTENCE),
            ("masking", MASKING),
            ("optimizer", OPTIMIZERS),
            ("dtype", DTYPES),
            ("jit_compile", (True, False, "auto")),
            ("remat", (True, False)),
            ("tensorboard", (True, False)),
            ("verify", (True, False)),
            ("distribute", KINDS),
        ):
            if getattr(self, name) not in values:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, values))}; got {getattr(self, name)!r}.")
        for name, low, high in (
            ("mask_rate", 0, 1),
            ("short_seq_prob", 0, 1),
            ("held_out", 0, 0.5),
            ("layer_decay", 0, 1),
            ("weight_decay", 0, 1),
            ("ema", 0, 1),
        ):
            value = getattr(self, name)
            if not (value is None and name == "ema") and not (is_number(value) and low <= value <= high):
                raise ValueError(f"{name} must be a number from {low} to {high}; got {value!r}.")
        for name in ("learning_rate", "clip_norm"):
            value = getattr(self, name)
            if not (value is None and name == "clip_norm") and not (is_number(value) and value > 0):
                raise ValueError(f"{name} must be a number above 0; got {value!r}.")
        for name in ("phases", "lengths"):
            if not isinstance(getattr(self, name), (list, tuple)):
                raise ValueError(f"{name} must be a list; got {getattr(self, name)!r}.")
        if not all(isinstance(n, numbers.Integral) and not isinstance(n, bool) for n in self.lengths):
            raise ValueError(f"lengths must be whole numbers; got {self.lengths!r}.")
        object.__setattr__(self, "lengths", tuple(self.lengths))
        object.__setattr__(self, "phases", tuple(as_phase(phase, i) for i, phase in enumerate(self.phases)))
        for phase in self.all_phases:
            if phase.batch_size % self.gradient_accumulation_steps:
                raise ValueError(
                    f"batch_size must be a multiple of gradient_accumulation_steps={self.gradient_accumulation_steps}; "
                    f"got {phase.batch_size}."
                )

    @property
    def all_phases(self) -> tuple[Phase, ...]:
        """The phases of the run, one where none are given, with all numbers filled in."""
        given = tuple(self.phases) or (
            Phase(steps=self.steps, batch_size=self.batch_size, seq_len=self.seq_len, max_predictions=self.max_predictions),
        )
        return tuple(phase.with_predictions(self.mask_rate) for phase in given)

    @property
    def total_steps(self) -> int:
        """Optimizer steps of all phases together."""
        return sum(phase.steps for phase in self.all_phases)

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads of the model, as `build_model` takes them."""
        return ("mlm",) if self.next_sentence == "none" else ("mlm", self.next_sentence)

    def model_config(self, vocab_size: int, pad_token_id: int) -> BertConfig:
        """The `BertConfig` of a new model.

        Args:
            vocab_size: tokens of the vocabulary.
            pad_token_id: id of the padding.
        """
        longest = max(phase.seq_len for phase in self.all_phases)
        given = {"max_position_embeddings": max(512, longest), **size_fields(self.model)}
        return BertConfig.from_dict({**given, "vocab_size": vocab_size, "pad_token_id": pad_token_id})

    def resolved(self) -> dict[str, Any]:
        """The settings as plain values with every default filled in, as they are written into a run's folder."""
        steps = self.total_steps
        filled = {
            "warmup_steps": min(steps // 10, 10_000) if self.warmup_steps is None else self.warmup_steps,
            "evaluate_steps": self.evaluate_steps or max(steps // 10, 1),
            "save_steps": self.save_steps or self.evaluate_steps or max(steps // 10, 1),
            "phases": [asdict(phase) for phase in self.all_phases],
        }
        left_out = ("steps", "batch_size", "seq_len", "max_predictions", *OF_A_START)
        return plain({name: value for name, value in {**asdict(self), **filled}.items() if name not in left_out})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Settings from plain values, such as those of a YAML file.

        Raises:
            ValueError: a name that is none, with the nearest that are.
        """
        return settings_from_dict(cls, values, "a pretraining run")
