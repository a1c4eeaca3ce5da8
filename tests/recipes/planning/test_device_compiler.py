"""The training step is lowered for a TPU without a TPU and without its compiler."""

import keras
import pytest

from keras_bert_rebuild import BertConfig
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

pytestmark = pytest.mark.backend("jax")

CONFIG = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16
)


def lowered(**settings):
    """The exported step of a tiny model, and the state it takes."""
    import jax

    from keras_bert_rebuild.recipes.planning.device_compiler import make_compiled_model, step_arguments

    settings = PretrainSettings(batch_size=4, seq_len=8, dtype="mixed_bfloat16", **settings)
    keras.config.set_dtype_policy(settings.dtype)
    model = make_compiled_model(CONFIG, settings)
    arguments = step_arguments(model, 4, 8)
    return jax.export.export(jax.jit(model.train_step, donate_argnums=0), platforms=["tpu"])(*arguments), arguments


@pytest.mark.parametrize(
    "settings", [{}, {"next_sentence": "none", "remat": True, "loss_chunk": 4, "optimizer": "lamb", "ema": 0.9}]
)
def test_the_step_of_fit_is_lowered_for_tpu(settings):
    exported, (state, (x, y)) = lowered(**settings)
    assert exported.platforms == ("tpu",)
    text = exported.mlir_module()
    assert "stablehlo.dot_general" in text
    assert "bf16" in text
    heads = 1 if settings else 2
    assert [tuple(ids.shape) for ids in x] == [(4, 8)] * 3
    assert [tuple(ids.shape) for ids in (y if heads == 2 else [y])] == [(4, 8, 1), (4, 1)][:heads]
    # Weights, dropout seeds and optimizer state are returned in their shapes.
    shapes = [[(tuple(array.shape), str(array.dtype)) for array in part] for part in state[:3]]
    out = keras.tree.pack_sequence_as(exported.out_tree.unflatten([0] * len(exported.out_avals)), list(exported.out_avals))
    assert [[(tuple(array.shape), str(array.dtype)) for array in part] for part in out[1][:3]] == shapes


def test_the_sums_over_devices_are_read_from_the_text_of_a_program():
    from keras_bert_rebuild.recipes.planning.device_compiler import all_reduced_bytes

    program = """
      %add.1 = f32[100,100]{1,0:T(8,128)} add(%a, %b)
      %all-reduce.1 = (f32[2,768]{1,0:T(2,128)}, /*index=5*/bf16[768]{0:T(256)(128)(2,1)}) all-reduce(%x, %y), replica_groups={}
      ROOT %all-reduce.2 = s32[]{:T(128)} all-reduce(%z), to_apply=%sum
    """
    assert all_reduced_bytes(program) == 2 * 768 * 4 + 768 * 2 + 4
