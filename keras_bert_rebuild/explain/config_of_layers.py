"""The config of a model that was put together by hand, read from its layers."""

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.explain.encoder_walk import ATTENTION
from keras_bert_rebuild.layers.activations import ACTIVATIONS
from keras_bert_rebuild.models.encoder_blocks import HALVES
from keras_bert_rebuild.models.heads import CRF


def config_of_layers(encoder):
    """What the layers of an encoder say of its sizes; rates and names of labels are not looked for.

    Args:
        encoder: as from `find_encoder`.

    Raises:
        ValueError: a block is not whole, as in a model that ends within one.
    """
    layers, numbers = encoder.layers, sorted(set(encoder.blocks))
    needed = [f"Encoder-{n}-{half}{end}" for n in numbers for half in HALVES for end in ("", "-Norm")]
    missing = [name for name in needed if name not in layers]
    if missing:
        raise ValueError(f"the model must have whole encoder blocks; {', '.join(missing)} is missing.")
    token, position = layers["Embedding-Token"], layers["Embedding-Position"]
    attention, feed_forward = (layers[f"Encoder-{numbers[0]}-{half}"] for half in HALVES)
    hidden_size = attention.query_dense.units
    adapter = layers.get(f"{feed_forward.name}-Adapter")
    words = {function: word for word, function in ACTIVATIONS.items()}
    return BertConfig(
        vocab_size=token.input_dim,
        pad_token_id=token.pad_id,
        hidden_size=hidden_size,
        embedding_size=token.output_dim if "Embedding-Mapping" in layers else None,
        num_hidden_layers=len(encoder.blocks),
        num_hidden_groups=None if len(numbers) == len(encoder.blocks) else len(numbers),
        num_attention_heads=attention.head_num,
        intermediate_size=feed_forward.units,
        hidden_act=words.get(feed_forward.activation, feed_forward.activation),  # what has no word stays a function
        max_position_embeddings=position.input_dim,
        position_offset=position.offset,
        type_vocab_size=layers["Embedding-Segment"].input_dim if "Embedding-Segment" in layers else 0,
        num_tasks=layers["Embedding-Task"].input_dim if "Embedding-Task" in layers else 0,
        adapter_size=adapter.units if adapter is not None else 0,
        hidden_dropout_prob=0.1 if f"{ATTENTION.format(numbers[0])}-Dropout" in layers else 0.0,
        labels=_labels(layers),
        crf=CRF in layers,
    )


def _labels(layers):
    heads = [layers[name] for name in ("Classification", "Token-Classification") if name in layers]
    return tuple(f"LABEL_{i}" for i in range(heads[0].units)) if heads else ()
