"""The memory that a whole run needs: that of its most demanding phase."""

from dataclasses import replace

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.recipes.step_costs import Memory, step_memory


def run_memory(config: BertConfig, settings: PretrainSettings, kind: str, devices: int = 1) -> Memory:
    """The memory of one device in the most demanding step of a run; growing batches need most at the end.

    Args:
        config: a `BertConfig`.
        settings: the settings of the run, with one phase or several.
        kind: "tpu", "gpu" or "cpu".
        devices: number of devices that share a batch.
    """
    found = []
    for phase in settings.all_phases:
        one = replace(settings, phases=(phase,), batch_warmup=(), batch_warmup_steps=None)
        rows = phase.batch_size // (settings.gradient_accumulation_steps * devices)
        found.append(step_memory(config, one, kind, rows))
    return max(found, key=lambda memory: memory.total)
