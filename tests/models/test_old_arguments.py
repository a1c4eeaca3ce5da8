"""Arguments from older releases of keras_bert are accepted, or refused with their replacement."""

import keras
import pytest
from helpers.small import small_model

from keras_bert_rebuild import AdamWarmup, compile_model
from keras_bert_rebuild.layers import get_embedding, get_inputs
from keras_bert_rebuild.models.get_model import FIELDS, OLD

pytestmark = pytest.mark.backend

# Argument, and what the message names.
REPLACED = {
    "custom_layers": "call the layers that replaced the encoder",
    "dropout": "it is called dropout_rate",
    "lr": "pass it to compile_model(model, ...) as learning_rate",
    "learning_rate": "compile_model(model, ...)",
    "weight_decay": "compile_model(model, ...)",
    "weight_decay_pattern": "compile_model(model, ...)",
    "decay_steps": "compile_model(model, ...)",
    "warmup_steps": "compile_model(model, ...)",
    "hidden_size": "which is called embed_dim",
    "num_hidden_layers": "which is called transformer_num",
    "vocab_size": "which is called token_num",
    "dropuot_rate": "did you mean dropout_rate?",
}


@pytest.mark.parametrize("name", REPLACED)
def test_an_argument_of_an_older_release_is_named_with_its_replacement(name):
    with pytest.raises(ValueError, match=rf"get_model .*\b{name}\b") as caught:
        small_model(**{name: 1e-4})
    assert REPLACED[name] in str(caught.value)
    assert "BertConfig" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_named_argument_is_refused():
    for name in {*FIELDS, *OLD}:
        with pytest.raises(ValueError, match=name):
            small_model(**{name: 0})


def test_an_argument_that_resembles_nothing_is_refused_without_a_guess():
    with pytest.raises(ValueError, match=r"get_model has no argument zzz\.$"):
        small_model(zzz=1)


def test_fields_of_the_config_are_still_taken():
    assert small_model(type_vocab_size=3, layer_norm_eps=1e-5).config.type_vocab_size == 3


def test_the_call_in_the_message_on_custom_layers_builds_the_old_model():
    inputs = get_inputs(8)[:2]
    x, _ = get_embedding(inputs, token_num=20, pos_num=8, embed_dim=6)
    model = keras.Model(inputs, keras.layers.LSTM(6, return_sequences=True, name="LSTM")(x))
    assert [layer.name for layer in model.layers][-2:] == ["Embedding-Position", "LSTM"]


def test_compile_model_and_adam_warmup_take_lr():
    model = compile_model(small_model(), lr=0.25)
    assert float(model.optimizer.learning_rate) == 0.25
    assert float(AdamWarmup(10, 2, lr=0.5).learning_rate) == 0.5


def test_lr_of_adam_warmup_is_its_learning_rate_to_read_and_to_set():
    optimizer = AdamWarmup(10, 2, learning_rate=0.5)
    assert float(optimizer.lr) == 0.5
    optimizer.lr = 0.125
    assert float(optimizer.learning_rate) == float(optimizer.lr) == 0.125
    assert optimizer.get_config()["learning_rate"] == 0.125
