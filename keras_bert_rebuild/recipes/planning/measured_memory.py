"""The measured memory of a step on the CPU of this machine; for batches that take too long, extrapolated from smaller ones.

The formula of `step_costs` holds for programs that XLA compiles for an accelerator. On a CPU, each backend stores other
intermediate results, and allocators retain pages. Therefore short pretrainings are run, each in a separate process whose peak
resident set the system reports.
"""

import ctypes
import dataclasses
import gc
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.data.corpora.documents import TokenCorpus
from keras_bert_rebuild.models.memory import available_bytes
from keras_bert_rebuild.recipes.pretraining.pretrain import pretrain
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import MAX_EXAMPLES

CHILD = "keras_bert_rebuild.recipes.planning.measured_memory"

# The maximum number of tokens in the first measured batches: with these, a step of BERT-base takes half a minute on two cores.
MAX_TOKENS = 4096

# The whole batch is measured, too, if by the smaller ones it takes at most this many seconds and this part of the free memory.
MAX_SECONDS, PART_OF_MEMORY = 120.0, 0.7

# A tiny model whose run has the same fixed costs as that of any model.
SMALL = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16}

STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class MeasuredMemory:
    """Measured bytes of steps on this machine."""

    rows: tuple[int, ...]
    """Examples of the measured steps."""

    bytes: tuple[int, ...]
    """The peak resident set of each, minus that of a run of a tiny model."""

    total: int
    """Bytes of a step with all examples: the last measurement if it had all, else extrapolated linearly."""

    def largest(self, available: float) -> int:
        """The maximum number of examples whose step fits into this number of bytes."""
        low, high = 0, MAX_EXAMPLES
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _on_line(self.rows, self.bytes, middle) <= available else (low, middle)
        return low


def sizes_to_measure(rows: int, seq_len: int) -> tuple[int, ...]:
    """The numbers of examples to run first: the whole batch if it is small, else those of `MAX_TOKENS` and of half of it.

    Args:
        rows: examples that the device processes at once.
        seq_len: tokens of an example.
    """
    largest = max(MAX_TOKENS // seq_len, 2)
    return (rows,) if rows <= largest else (largest // 2, largest)


def measure_memory(config: BertConfig, settings: PretrainSettings, rows: int) -> MeasuredMemory:
    """Run short pretrainings with the backend and settings of this process.

    The smaller ones say what the whole batch needs. If there is time and memory for it, it is run; allocators retain memory that
    does not grow with the batch, so that its own measurement is more exact than the line.

    Args:
        config: a `BertConfig`.
        settings: `PretrainSettings` of one phase.
        rows: examples that the device processes at once.

    Raises:
        ValueError: the system does not report the peak resident set (only Linux does), or a run failed.
    """
    if not CLEAR_REFS.exists():
        raise ValueError("measuring memory needs Linux, which reports the peak resident set of a process; this system does not.")
    sizes = sizes_to_measure(rows, settings.all_phases[0].seq_len)
    found, seconds = [], []
    for size in sizes:
        started = time.perf_counter()
        found.append(_ask(config, settings, size))
        seconds.append(time.perf_counter() - started)
    # The peak of the first step, which includes compilation, and that of later steps grow at different rates.
    total = max(round(_on_line(sizes, peaks, rows)) for peaks in zip(*found, strict=True))
    affordable = _on_line(sizes, seconds, rows) <= MAX_SECONDS and total <= PART_OF_MEMORY * (available_bytes() or 0)
    if rows not in sizes and affordable:
        sizes, found = (*sizes, rows), [*found, _ask(config, settings, rows)]
        total = max(found[-1])
    return MeasuredMemory(sizes, tuple(max(peaks) for peaks in found), total)


def _on_line(sizes, values, rows):
    """The value for `rows` on the line through the first and the last point, or the only value."""
    slope = (values[-1] - values[0]) / max(sizes[-1] - sizes[0], 1)
    return values[-1] + slope * (rows - sizes[-1])


def _ask(config, settings, rows):
    """Peaks of a run with this number of examples at once, in a separate process."""
    question = {"config": config.to_dict(), "settings": dataclasses.asdict(settings), "rows": rows}
    answer = subprocess.run([sys.executable, "-m", CHILD], input=json.dumps(question), capture_output=True, text=True, check=False)
    if answer.returncode:
        lines = [line.strip() for line in answer.stderr.splitlines() if line.strip()]
        killed = "the system killed it, probably because memory ran out" if answer.returncode < 0 else "it gave no reason"
        raise ValueError(f"a step of {rows} examples could not be measured: {lines[-1] if lines else killed}")
    return json.loads(answer.stdout.splitlines()[-1])


def peaks_of_run(config: BertConfig, settings: PretrainSettings, rows: int) -> tuple[int, int]:
    """The peak resident sets of this process up to the end of the first step, and after it, minus the initial resident set.

    Args:
        config, settings: as for `measure_memory`.
        rows: number of examples at once.
    """
    phase = settings.all_phases[0]
    changes: dict[str, Any] = {
        "phases": (dataclasses.replace(phase, steps=3, batch_size=rows * settings.gradient_accumulation_steps),),
        "batch_warmup": (),
        "batch_warmup_steps": None,
        "held_out": 0.0,
        "workers": 0,
        "log_steps": 1,
        "save_in_background": False,
        "warmup_steps": 0,
        "probes": (),
    }
    corpus, run = _random_corpus(config.vocab_size, phase.seq_len), dataclasses.replace(settings, **changes)
    peaks = []

    def after_first_step(row):
        if row["step"] == 1:
            peaks.append(_resident("VmHWM"))
            CLEAR_REFS.write_text("5")  # resets the peak to the current resident set

    with tempfile.TemporaryDirectory() as folder:
        model = config.to_dict()
        pretrain(corpus, Path(folder) / "small", dataclasses.replace(run, model={**model, **SMALL}))
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        before = _resident("VmRSS")
        CLEAR_REFS.write_text("5")
        pretrain(corpus, Path(folder) / "run", dataclasses.replace(run, model=model), report=after_first_step)
        peaks.append(_resident("VmHWM"))
    first, later = (peak - before for peak in peaks)
    return first, later


def _random_corpus(vocab_size, seq_len):
    """Documents of random tokens with several passages each."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*special, *(f"w{i}" for i in range(vocab_size - len(special)))]
    passages, words = 400, max(seq_len // 2 - 4, 4)
    starts = np.arange(0, passages * words + 1, words)
    ids = np.random.default_rng(0).integers(len(special), vocab_size, passages * words, dtype="int32")
    return TokenCorpus(ids, starts, starts[::20], vocabulary)


def _resident(name):
    """Bytes of a field in the status of this process."""
    with STATUS.open() as file:
        return int(dict(line.split(":", 1) for line in file)[name].split()[0]) * 1024


def main() -> None:
    """Read a request from standard input and write the report to standard output, both as JSON."""
    question = json.load(sys.stdin)
    settings = PretrainSettings.from_dict(question["settings"])
    json.dump(peaks_of_run(BertConfig.from_dict(question["config"]), settings, question["rows"]), sys.stdout)


if __name__ == "__main__":
    main()
