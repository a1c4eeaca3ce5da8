"""All settings of a pretraining run, as data."""

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.finite import is_number
from keras_bert_rebuild.recipes.pretraining.objectives import OBJECTIVES, MaskedTokens, objective_defaults, of_other_objectives
from keras_bert_rebuild.recipes.settings import MINIMUMS as PHASE_MINIMUMS
from keras_bert_rebuild.recipes.settings import Phase, as_phase, check_whole_numbers, plain, settings_from_dict, size_fields
from keras_bert_rebuild.training.distributed.distribution import KINDS

NEXT_SENTENCE = ("nsp", "sop", "none")
MASKING = ("token", "whole_word", "ngram", "span")
OPTIMIZERS = ("adamw", "lamb")
DTYPES = ("float32", "mixed_bfloat16")
# The settings of one start of a run on some machines, not of the run.
OF_A_START = ("hosts", "host_index", "coordinator")
# The minimum of every whole number.
MINIMUMS = {
    **PHASE_MINIMUMS,
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
    """The settings of a pretraining run: fields of a YAML file, options of `keras-bert pretrain`, arguments of `pretrain`.

    Reference: Devlin et al., 2019, appendix A.2, for the defaults of optimizer and masking.
    """

    model: object = "base"
    """A size (tiny, mini, small, medium, base, large, transformer-base, transformer-big, electra-small, electra-base,
    electra-large, xlnet-base, xlnet-large), the path of a config.json, or the fields of a `BertConfig`."""

    init: str | None = None
    """A checkpoint to start from, anything that `from_pretrained` reads; its sizes then replace `model`."""

    objective: str = "mlm"
    """What is learned: "mlm", masked tokens and a second task, as BERT, or "electra", a discriminator of tokens that a generator
    replaced, both of them new, or "xlnet", tokens in random orders, each from those before it, by a new XLNet."""

    generator_size: float | None = None
    """With "electra", the width of the generator as a fraction of the model's; None: 1/3 for a width of 768, else 1/4."""

    discriminator_weight: float | None = None
    """With "electra", the factor of the discriminator's loss; None: 50."""

    steps: int = 100_000
    """Optimizer steps."""

    batch_size: int = 32
    """Examples per optimizer step, of all micro-batches together."""

    seq_len: int = 128
    """Tokens of an example, special ones included."""

    max_predictions: int | None = None
    """Maximum number of positions to predict in an example; None: as many as `mask_rate` needs, plus one."""

    phases: Sequence[Any] = ()
    """Consecutive phases of different lengths, each with steps, batch_size, seq_len and max_predictions, instead of these four:
    BERT had 90 % of the steps at 128 and the rest at 512."""

    gradient_accumulation_steps: int = 1
    """Micro-batches per optimizer step, all with the same weight, however many labels they have."""

    next_sentence: str | None = None
    """The second task: "nsp", "sop" or "none"; None: "nsp", and none with "electra", "xlnet" or packing."""

    masking: str | None = None
    """What is masked as a whole: "token", "whole_word", "ngram", spans of up to three words, or "span", of up to five; None:
    "token", and "span" with "xlnet"."""

    mask_rate: float | None = None
    """Fraction of the tokens to predict; None: 0.15, and 1/6 with "xlnet"."""

    short_seq_prob: float = 0.1
    """Fraction of the examples that are cut to a random length; with packing, of full rows that are cut in two."""

    packing: bool = False
    """Fill every row with several sequences that do not see each other, instead of padding; without a second task."""

    lengths: Sequence[int] = ()
    """Lengths to pad to if many examples are shorter than `seq_len`, such as [32, 64, 96]: each batch then has examples of about
    the same length. Empty: all are padded to `seq_len`."""

    optimizer: str = "adamw"
    """"adamw" or "lamb"."""

    learning_rate: float = 1e-4
    """The maximum rate."""

    warmup_steps: int | None = None
    """Optimizer steps of rising rate; None: a tenth of all, at most 10,000. Then it falls to 0."""

    weight_decay: float = 0.01
    """Fraction of a weight that is subtracted at a rate of 1; biases and norms are not decayed."""

    layer_decay: float = 1.0
    """Rate of a block, as a fraction of that of the block above it."""

    clip_norm: float | None = 1.0
    """Maximum norm of the gradient of all weights; None for no limit."""

    ema: float | None = None
    """Momentum of the moving average of the weights, such as 0.999; the average is evaluated and saved."""

    dtype: str = "float32"
    """"float32", or "mixed_bfloat16" for products in bfloat16 and weights in float32."""

    jit_compile: bool | str = "auto"
    """Whether steps are compiled with XLA; "auto": as Keras does, on JAX, and on TensorFlow where there is an accelerator."""

    remat: bool = False
    """Recompute encoder blocks for their gradients instead of storing their activations."""

    loss_chunk: int | None = None
    """Positions whose logits are held at once; None for all."""

    held_out: float = 0.01
    """Fraction of the documents that are held out to evaluate on, without passages that are also in training; 0 for none."""

    evaluate_steps: int | None = None
    """Optimizer steps between evaluations; None: ten in a run."""

    evaluation_steps: int = 20
    """Batches of an evaluation."""

    log_steps: int = 50
    """Optimizer steps between rows of metrics.csv."""

    save_steps: int | None = None
    """Optimizer steps between checkpoints; None: with the evaluations."""

    keep_checkpoints: int = 3
    """Number of the newest checkpoints to keep on disk, besides the best one."""

    save_in_background: bool | str = "auto"
    """Whether checkpoints are written while the training goes on, from a copy of weights and optimizer in the memory of the device;
    "auto": on an accelerator."""

    workers: int = 1
    """Threads that make batches while the model trains; 0 makes them between the steps."""

    verify: bool = True
    """Compare the SHA-256 of the store's files with its index at every start, two seconds per GB."""

    tensorboard: bool = True
    """Write logs for TensorBoard too, if it is installed."""

    seed: int = 0
    """The seed of weights, order, masks and dropout."""

    distribute: str = "auto"
    """The devices: "none", one; "mirrored", all GPUs of a host, on TensorFlow; "data", all devices of all hosts, each with a part
    of the batch, on JAX; "model", each with a part of the weights too; "auto", "data" or "mirrored" if there are several."""

    model_devices: int | None = None
    """With "model", the number of devices that share the weights of one replica; None: those of one host."""

    hosts: int | None = None
    """Hosts that train together, each started with the same settings; None for one."""

    host_index: int | None = None
    """The number of this host, from 0; None where JAX detects it, on Cloud TPU, Slurm and Open MPI."""

    coordinator: str | None = None
    """The address of host 0 and a free port on it, address:port; None where JAX detects it."""

    def __post_init__(self) -> None:
        check_whole_numbers(self, MINIMUMS, OPTIONAL)
        for name, value in objective_defaults(self).items():
            object.__setattr__(self, name, value)
        for name, values in (
            ("objective", tuple(OBJECTIVES)),
            ("next_sentence", NEXT_SENTENCE),
            ("masking", MASKING),
            ("optimizer", OPTIMIZERS),
            ("dtype", DTYPES),
            ("jit_compile", (True, False, "auto")),
            ("remat", (True, False)),
            ("packing", (True, False)),
            ("tensorboard", (True, False)),
            ("save_in_background", (True, False, "auto")),
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
            ("generator_size", 0, 1),
        ):
            value = getattr(self, name)
            if not (value is None and name in ("ema", "generator_size")) and not (is_number(value) and low <= value <= high):
                raise ValueError(f"{name} must be a number from {low} to {high}; got {value!r}.")
        for name in ("learning_rate", "clip_norm", "discriminator_weight"):
            value = getattr(self, name)
            if not (value is None and name != "learning_rate") and not (is_number(value) and value > 0):
                raise ValueError(f"{name} must be a number above 0; got {value!r}.")
        for name in ("phases", "lengths"):
            if not isinstance(getattr(self, name), (list, tuple)):
                raise ValueError(f"{name} must be a list; got {getattr(self, name)!r}.")
        if not all(isinstance(n, numbers.Integral) and not isinstance(n, bool) for n in self.lengths):
            raise ValueError(f"lengths must be whole numbers; got {self.lengths!r}.")
        self.learned.check(self)
        object.__setattr__(self, "lengths", tuple(self.lengths))
        object.__setattr__(self, "phases", tuple(as_phase(phase, i) for i, phase in enumerate(self.phases)))
        for phase in self.all_phases:
            if phase.batch_size % self.gradient_accumulation_steps:
                raise ValueError(
                    f"batch_size must be a multiple of gradient_accumulation_steps={self.gradient_accumulation_steps}; "
                    f"got {phase.batch_size}."
                )

    @property
    def learned(self) -> MaskedTokens:
        """The objective, an object of `objectives`."""
        return OBJECTIVES[self.objective]

    @property
    def all_phases(self) -> tuple[Phase, ...]:
        """The phases of the run, one if none are given, with all numbers filled in."""
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
        return self.learned.heads(self)

    def model_config(self, vocab_size: int, pad_token_id: int) -> BertConfig:
        """The `BertConfig` of a new model.

        Args:
            vocab_size: tokens of the vocabulary.
            pad_token_id: id of the padding.
        """
        longest = max(phase.seq_len for phase in self.all_phases)
        given = {"max_position_embeddings": max(512, longest), **self.learned.fields(size_fields(self.model))}
        return BertConfig.from_dict({**given, "vocab_size": vocab_size, "pad_token_id": pad_token_id})

    def resolved(self) -> dict[str, Any]:
        """The settings as plain values with every default filled in, as they are saved in a run's folder."""
        steps = self.total_steps
        filled = {
            "warmup_steps": min(steps // 10, 10_000) if self.warmup_steps is None else self.warmup_steps,
            "evaluate_steps": self.evaluate_steps or max(steps // 10, 1),
            "save_steps": self.save_steps or self.evaluate_steps or max(steps // 10, 1),
            "phases": [asdict(phase) for phase in self.all_phases],
        }
        left_out = ("steps", "batch_size", "seq_len", "max_predictions", *OF_A_START, *of_other_objectives(self))
        return plain({name: value for name, value in {**asdict(self), **filled}.items() if name not in left_out})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Settings from plain values, such as those of a YAML file.

        Raises:
            ValueError: a name is unknown; the error lists the nearest known ones.
        """
        return settings_from_dict(cls, values, "a pretraining run")
