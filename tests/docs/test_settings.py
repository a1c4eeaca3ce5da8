"""The files of settings that the pages show are settings of a run."""

from pathlib import Path

import pytest
import yaml
from helpers.page_blocks import blocks

from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

TRAINING = Path(__file__).parents[2] / "docs" / "training.md"
SHOWN = [yaml.safe_load(block) for language, block in blocks(TRAINING) if language == "yaml"]


@pytest.mark.parametrize("shown", SHOWN, ids=range(len(SHOWN)))
def test_a_file_of_settings_of_the_page_on_training_is_one(shown):
    assert PretrainSettings.from_dict(shown).total_steps > 1


def test_the_curriculum_has_the_same_tokens_in_every_step_and_grows():
    (shown,) = (settings for settings in SHOWN if settings.get("packing"))
    phases = PretrainSettings.from_dict(shown).all_phases
    assert len({phase.batch_size * phase.seq_len for phase in phases}) == 1
    lengths = [phase.seq_len for phase in phases]
    assert lengths == sorted(set(lengths))
