"""The config that is read from the layers of a model, live or of a file of Keras, is the one it was built from."""

import pytest
from helpers.toy_family import ToyConfig

from keras_bert_rebuild import BertConfig, build_model
from keras_bert_rebuild.models.find_encoder import find_encoder
from keras_bert_rebuild.pretrained.config_of_layers import config_from_keras_2, config_of_layers

SIZES = {
    "vocab_size": 30,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 10,
    "attention_probs_dropout_prob": 0.0,
}
CHANGES = {
    "bert": {"layer_norm_eps": 1e-6},
    "keras_bert": {"attention_act": "gelu_erf", "hidden_dropout_prob": 0.0, "num_tasks": 3, "adapter_size": 4},
    "roberta": {
        "position_offset": 2,
        "pad_token_id": 1,
        "type_vocab_size": 1,
        "hidden_act": "gelu_erf",
        "hidden_dropout_prob": 0.3,
    },
    "distilbert": {"type_vocab_size": 0, "attention_probs_dropout_prob": 0.2},
    "albert": {"embedding_size": 4, "num_hidden_layers": 4, "num_hidden_groups": 2},
}


@pytest.mark.parametrize("name", CHANGES)
def test_layers_say_what_they_were_made_from(name):
    config = BertConfig(**{**SIZES, **CHANGES[name]})
    model = build_model(config)
    assert config_of_layers(find_encoder(model)).encoder() == config.encoder()
    if config.num_hidden_groups is None:
        layers = [{"config": {**layer.get_config()}} for layer in model.layers]
        for layer in layers:  # Keras 2 wrote the word alone
            if "activation" in layer["config"]:
                attention = "Attention" in layer["config"]["name"]
                layer["config"]["activation"] = (config.attention_act or "linear") if attention else config.hidden_act
        assert config_from_keras_2({"config": {"layers": layers}}, "m.h5").encoder() == config.encoder()


def test_a_block_that_is_not_like_berts_is_named_where_no_config_says_so():
    config = ToyConfig(family="gated_toy", **SIZES)
    encoder = find_encoder(build_model(config))
    with pytest.raises(ValueError, match=r"position table and complete encoder blocks; Embedding-Position, .* is missing"):
        config_of_layers(encoder)
    encoder = find_encoder(build_model(BertConfig(**SIZES)))
    encoder.layers["Encoder-2-FeedForward"].gated = True
    with pytest.raises(ValueError, match="must have BERT's layers; Encoder-2-FeedForward has gated=True"):
        config_of_layers(encoder)
