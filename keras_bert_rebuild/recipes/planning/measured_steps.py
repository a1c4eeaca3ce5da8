"""Timed pretraining steps, our own and published ones, from which plans derive the time of a step."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class MeasuredStep:
    """One step of BERT with an MLM and an NSP head and AdamW, on one device."""

    device: str
    """The name of the device in `plan_devices`, or "cpu"."""

    model: str
    """The size of the model."""

    batch_size: int
    """Examples of the step."""

    seq_len: int
    """Tokens of an example, with padding."""

    dtype: str
    """The dtype policy."""

    dropout: bool
    """Whether dropout was 0.1 on hidden states and attention probabilities."""

    seconds: float
    """The time of the step in seconds."""

    packing: bool = False
    """Whether rows held several sequences."""

    real_tokens: float = 1.0
    """The fraction of the positions of the batch that was not padding."""

    rate: float | None = None
    """Operations per second of a large matrix product on that machine; None to use the published figure."""

    source: str
    """Where it was measured."""

    @property
    def words(self):
        """What was measured, as text."""
        return f"BERT-{self.model}, {self.batch_size} x {self.seq_len}, {'with' if self.dropout else 'no'} dropout, {self.dtype}"


def _on_h100(batch_size, seq_len, dropout, milliseconds, packing=False):
    return MeasuredStep(
        device="h100",
        model="base",
        batch_size=batch_size,
        seq_len=seq_len,
        dtype="mixed_bfloat16",
        dropout=dropout,
        seconds=milliseconds / 1e3,
        packing=packing,
        source="measured on an H100, JAX 0.11.2",
    )


def _on_two_cores(batch_size, seq_len, dtype, seconds, rate, real_tokens):
    return MeasuredStep(
        device="cpu",
        model="base",
        batch_size=batch_size,
        seq_len=seq_len,
        dtype=dtype,
        dropout=True,
        seconds=seconds,
        real_tokens=real_tokens,
        rate=rate * 1e9,
        source="measured on two cores, TensorFlow 2.21",
    )


# Milliseconds and seconds per step, from benchmarks/RESULTS.md: "Where a step on a GPU spends its time", there before random bits
# of eight operations and one product for queries, keys and values; and "A pretraining step beside transformers and KerasHub".
MEASURED = (
    _on_h100(256, 128, True, 49.8, packing=True),
    _on_h100(64, 512, True, 53.6, packing=True),
    _on_h100(256, 128, False, 47.5, packing=True),
    _on_h100(64, 512, False, 50.0, packing=True),
    _on_two_cores(8, 128, "float32", 2.544, 212, 0.734),
    _on_two_cores(8, 128, "mixed_bfloat16", 1.468, 412, 0.734),
    _on_two_cores(2, 512, "float32", 2.823, 212, 0.709),
    _on_two_cores(2, 512, "mixed_bfloat16", 1.626, 417, 0.709),
)

# The fraction of the published FLOP/s that a large product reaches, measured on the H100: 840 of 989.5 TFLOP/s.
PRODUCTS = 0.85

NVIDIA = "https://github.com/NVIDIA/DeepLearningExamples/tree/master/PaddlePaddle/LanguageModeling/BERT, 694 and 307 sequences/s"


def _of_nvidia(batch_size, dtype, sequences):
    return MeasuredStep(
        device="a100-80",
        model="large",
        batch_size=batch_size,
        seq_len=128,
        dtype=dtype,
        dropout=True,
        seconds=batch_size / sequences,
        source=NVIDIA,
    )


# Steps of other programs, to compare plans with, not to derive them from; they use float16 and LAMB.
PUBLISHED = (_of_nvidia(256, "mixed_bfloat16", 694), _of_nvidia(128, "float32", 307))
