"""All settings of a pretraining run, as data."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.files.limits import is_number
from keras_bert_rebuild.recipes.pretraining.example_settings import MASKING, NEXT_SENTENCE, STEPS, ExampleSettings
from keras_bert_rebuild.recipes.pretraining.objectives import objective_defaults, unused_settings
from keras_bert_rebuild.recipes.pretraining.optimizer_settings import BEFORE, OPTIMIZERS, OptimizerSettings
from keras_bert_rebuild.recipes.probing.probe_files import LEAST, probe_files
from keras_bert_rebuild.recipes.run_log import LOGS
from keras_bert_rebuild.recipes.settings import check_settings, is_whole, plain, setting, settings_from_dict, size_fields
from keras_bert_rebuild.training.distributed.distribution import KINDS
from keras_bert_rebuild.training.distributed.hosts import AUTO

__all__ = ["DTYPES", "INSTEAD_OF_PHASES", "MASKING", "NEXT_SENTENCE", "OF_A_START", "OPTIMIZERS", "PretrainSettings"]

DTYPES = ("float32", "mixed_bfloat16")
# Settings that may differ between two starts of the same run.
OF_A_START = ("hosts", "host_index", "coordinator")
# Settings that a run's file has as `phases`, and that are without effect beside `phases`.
INSTEAD_OF_PHASES = ("steps", "batch_size", "seq_len", "max_predictions", "batch_warmup", "batch_warmup_steps")


def _are_hosts(value):
    return value == AUTO or (is_whole(value) and value >= 1)


@dataclass(frozen=True, kw_only=True)
class PretrainSettings(OptimizerSettings, ExampleSettings):
    """The settings of a pretraining run: fields of a YAML file, options of `keras-bert pretrain`, arguments of `pretrain`."""

    dtype: str = setting("float32", choices=DTYPES)
    """Precision: float32, or mixed_bfloat16 (computation in bfloat16, weights in float32)."""

    jit_compile: bool | str = setting("auto", choices=(True, False, "auto"))
    """Compile training steps with XLA; auto compiles on JAX, and on TensorFlow with an accelerator."""

    remat: bool = False
    """Activation checkpointing: recompute the encoder blocks in the backward pass instead of storing their activations."""

    loss_chunk: int | None = setting(None, least=1)
    """Compute the vocabulary logits for this many positions at a time, to save memory (default: all at once)."""

    held_out: float = setting(0.01, most=0.5)
    """Fraction of the documents held out for evaluation, without what also occurs in the training set; 0 for none."""

    evaluate_steps: int | None = setting(None, least=1)
    """Optimizer steps between evaluations (default: ten evaluations per run)."""

    evaluation_steps: int = setting(20, least=1)
    """Batches per evaluation."""

    probes: Sequence[str] = ()
    """Labelled files for linear probes of the frozen encoder during training: NAME=TRAIN,DEV for text or pair classification,
    similarity:NAME=TRAIN,DEV for scored pairs, in the file formats of keras-bert finetune (default: no probes)."""

    probe_steps: int | None = setting(None, least=1)
    """Optimizer steps between probes (default: with every evaluation)."""

    probe_examples: int = setting(2000, least=LEAST)
    """Maximum number of examples from each file of a probe, a random sample of larger files."""

    log_steps: int = setting(50, least=1)
    """Optimizer steps between rows of metrics.csv."""

    save_steps: int | None = setting(None, least=1)
    """Optimizer steps between checkpoints (default: with every evaluation)."""

    keep_checkpoints: int = setting(3, least=1)
    """Most recent checkpoints to keep, in addition to the best one."""

    save_in_background: bool | str = setting("auto", choices=(True, False, "auto"))
    """Write checkpoints while training continues, from a copy of weights and optimizer state in device memory; auto does so on an
    accelerator."""

    workers: int = setting(1, least=0)
    """Threads that prepare batches during training; 0 prepares them between steps."""

    verify: bool = True
    """Verify the checksums (SHA-256) of the token store at every start, while the run trains."""

    log_to: str | None = setting(None, choices=(*LOGS, None))
    """Log the rows of metrics.csv to TensorBoard, MLflow or Weights & Biases, too, where that is installed (default: to none)."""

    seed: int = setting(0, least=0)
    """Random seed of weights, order of the examples, masks and dropout."""

    distribute: str = setting("auto", choices=KINDS)
    """Devices: none (a single one), mirrored (all GPUs of a host, TensorFlow), data (data parallelism over all devices of all
    hosts, JAX), sharded (weights and optimizer are divided as well, as by FSDP, JAX), model (tensor parallelism, JAX) or auto (data
    or mirrored where there are several devices)."""

    model_devices: int | None = setting(None, least=1)
    """Devices that compute one replica together (default: those of one host with model, 1 with sharded)."""

    hosts: int | str | None = setting(None, accepts=_are_hosts, words="a whole number of at least 1 or 'auto'")
    """Number of hosts that train together, all started with the same settings; auto asks Slurm, Kubernetes, Open MPI or the TPU
    pod (default: one)."""

    host_index: int | None = setting(None, least=0)
    """Index of this host, from 0 (default: as with auto)."""

    coordinator: str | None = None
    """Address of host 0 and a free port on it (default: as with auto)."""

    def __post_init__(self) -> None:
        for name, value in objective_defaults(self).items():
            object.__setattr__(self, name, value)
        check_settings(self)
        probe_files(self.probes)
        if self.probe_steps is not None and not self.probes:
            raise ValueError(f"probe_steps needs the files in probes; got {self.probe_steps} steps and no file.")
        self._check_examples()
        self._check_optimizer()
        for phase in self.all_phases:
            if phase.batch_size % self.gradient_accumulation_steps:
                raise ValueError(
                    f"batch_size must be a multiple of gradient_accumulation_steps={self.gradient_accumulation_steps}; "
                    f"got {phase.batch_size}."
                )
        self._check_schedule()

    def _check_schedule(self):
        """Refuse a warm-up and a decay that are longer than the run, or that a run in minutes cannot count in steps."""
        if self.minutes is not None:
            for name in ("warmup_steps", "decay_from"):
                if getattr(self, name) is not None:
                    raise ValueError(
                        f"{name} must be left out with minutes, whose steps are not known; got {getattr(self, name)!r}."
                    )
        if self.schedule == "trapezoidal" and self.decay_from is None:
            fall = self.fall[0]
            rise = self.rise_of_minutes if self.minutes is not None else self.warmup_of(self.total_steps) / self.total_steps
            if rise + fall > 1:
                raise ValueError(
                    f"warm-up and decay of a trapezoidal schedule must fit into the run; got {rise:.0%} and {fall:.0%} of it."
                )

    @property
    def read_paths(self) -> tuple[Any, ...]:
        """The paths that a run reads besides its corpus; None for those not set."""
        return self.init, self.decay_from

    def model_config(self, vocab_size: int, pad_token_id: int) -> BertConfig:
        """The `BertConfig` of a new model.

        Args:
            vocab_size: tokens of the vocabulary.
            pad_token_id: id of the padding.
        """
        longest = max(phase.seq_len for phase in self.all_phases)
        config = {"max_position_embeddings": max(512, longest), **self.learned.fields(size_fields(self.model))}
        return BertConfig.from_dict({**config, "vocab_size": vocab_size, "pad_token_id": pad_token_id})

    def resolved(self) -> dict[str, Any]:
        """The settings as plain values with every default filled in, as saved in a run's folder."""
        steps = self.total_steps
        filled: dict[str, Any] = {"phases": [asdict(phase) for phase in self.all_phases]}
        if self.minutes is None:
            evaluate = self.evaluate_steps or max(steps // 10, 1)
            filled["warmup_steps"] = self.warmup_of(steps) if self.warmup_steps is None else self.warmup_steps
            filled |= {name: getattr(self, name) or evaluate for name in ("evaluate_steps", "save_steps", "probe_steps")}
        else:
            filled["warmup_fraction"] = self.rise_of_minutes
            filled["phases"] = [{"share": phase.pop("steps") / steps, **phase} for phase in filled["phases"]]
        if self.schedule == "trapezoidal":
            filled["decay_fraction"], filled["decay_shape"] = self.fall
        values = {**asdict(self), **filled}
        before = [name for name, value in BEFORE.items() if values[name] == value]
        of_probes = () if self.probes else ("probes", "probe_steps", "probe_examples")
        left_out = {*INSTEAD_OF_PHASES, *before, *of_probes, *OF_A_START, *unused_settings(self)}
        return plain({name: value for name, value in values.items() if name not in left_out})

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Settings from plain values, such as those of a YAML file.

        Raises:
            ValueError: a name is unknown; the error lists the nearest known ones.
        """
        return settings_from_dict(cls, values, "a pretraining run")

    @classmethod
    def recorded(cls, values: Mapping[str, Any]) -> Self:
        """The settings in a run's file, made by `resolved`; the file also describes its corpus, probes and examples.

        Raises:
            ValueError: a name is unknown, or values contradict each other.
        """
        twice = () if values.get("minutes") is not None or values.get("warmup_steps") is None else ("warmup_fraction",)
        left_out = ("corpus", "probed", *twice)
        settings = {name: value for name, value in values.items() if name not in left_out}
        if settings.get("minutes") is not None and isinstance(settings.get("phases"), list):
            settings["phases"] = [_with_steps(phase) for phase in settings["phases"]]
        return cls.from_dict(settings)


def _with_steps(phase):
    """A recorded phase of a run in minutes, with steps in place of its share of the time."""
    if not isinstance(phase, dict) or not is_number(phase.get("share")):
        return phase  # the settings refuse it
    return {"steps": max(round(phase["share"] * STEPS), 1), **{name: value for name, value in phase.items() if name != "share"}}
