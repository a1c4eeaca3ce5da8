"""The memory of a whole run: that of the phase that takes most."""

from dataclasses import replace

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import Memory, step_memory


def run_memory(config: BertConfig, settings: PretrainSettings, kind: str, devices: int = 1) -> Memory:
    """The memory of one device in the step of a run that takes most; batches that grow take most in the end.

    Args:
        config: a `BertConfig`.
        settings: those of the run, of one phase or several.
        kind: "tpu", "gpu" or "cpu".
        devices: number of devices that share a batch.
    """
    found = []
    for phase in settings.all_phases:
        one = replace(settings, phases=(phase,), batch_warmup=(), batch_warmup_steps=None)
        rows = phase.batch_size // (settings.gradient_accumulation_steps * devices)
        found.append(step_memory(config, one, kind, rows))
    return max(found, key=lambda memory: memory.total)
