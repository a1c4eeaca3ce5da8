"""keras_transformer's functions that add encoder blocks to a graph, as keras_bert's users import them."""

from collections.abc import Callable
from typing import Any

from keras_bert_rebuild.anatomy.encoder import Attention, Block, FeedForward, Norm
from keras_bert_rebuild.layers.activations import gelu
from keras_bert_rebuild.layers.keras_layers import EPSILON
from keras_bert_rebuild.models.encoder import make_block
from keras_bert_rebuild.models.encoder_blocks import run_block

_Activation = str | Callable[[Any], Any] | None


def get_encoder_component(
    name: str,
    input_layer: Any,
    head_num: int,
    hidden_dim: int,
    attention_activation: _Activation = None,
    feed_forward_activation: _Activation = "relu",
    dropout_rate: float = 0.0,
    trainable: bool = True,
    use_adapter: bool = False,
    adapter_units: int | None = None,
    adapter_activation: _Activation = "relu",
) -> Any:
    """Add one encoder block to a graph.

    Args:
        name: prefix of the names of its layers, such as "Encoder-1".
        input_layer: its input tensor, `(batch, length, hidden)`.
        head_num: number of attention heads; must divide the hidden size.
        hidden_dim: intermediate size of the feed-forward network.
        attention_activation: activation of queries, keys, values and the attention output; None in BERT.
        feed_forward_activation: activation of the feed-forward network; "gelu" is the tanh form.
        dropout_rate: in [0, 1); 0 leaves the dropout layers out.
        trainable: whether attention, feed-forward network and norms are trained.
        use_adapter: add an adapter after either half, as in `get_model`; it is trained.
        adapter_units: width inside the adapters.
        adapter_activation: activation inside the adapters.

    Returns:
        A tensor of the shape of `input_layer`.

    Raises:
        IndexError: `head_num` does not divide the hidden size.
        ValueError: an activation is unknown, or `use_adapter` is given without `adapter_units`.

    Example:

    >>> import keras
    >>> x = keras.Input((7, 6))
    >>> get_encoder_component("Encoder-1", x, head_num=3, hidden_dim=12).shape
    (None, 7, 6)
    """
    if use_adapter and (adapter_units is None or not adapter_units >= 1):
        raise ValueError(f"adapter_units must be at least 1 with use_adapter; got {adapter_units!r}.")
    block = Block(
        number=1,
        attention=Attention(head_num, attention_activation),
        feed_forward=FeedForward(hidden_dim, feed_forward_activation),
        norm=Norm(EPSILON),
        dropout=dropout_rate,
        adapter=adapter_units if use_adapter and adapter_units else 0,
    )
    block = make_block(block, name=name, adapter_act=adapter_activation, trainable=trainable)
    return run_block(block, input_layer)


def get_encoders(
    encoder_num: int,
    input_layer: Any,
    head_num: int,
    hidden_dim: int,
    attention_activation: _Activation = None,
    feed_forward_activation: _Activation = gelu,
    dropout_rate: float = 0.0,
    trainable: bool = True,
    use_adapter: bool = False,
    adapter_units: int | None = None,
    adapter_activation: _Activation = "relu",
) -> Any:
    """Add a stack of encoder blocks to a graph, named "Encoder-1" and so on.

    Args:
        encoder_num: number of blocks.
        input_layer: a tensor `(batch, length, width)`.
        head_num: for this and all other arguments see `get_encoder_component`.

    Returns:
        A tensor of the shape of `input_layer`.

    Raises:
        IndexError, ValueError: as `get_encoder_component`.

    Example:

    >>> import keras
    >>> x = keras.Input((7, 6))
    >>> model = keras.Model(x, get_encoders(2, x, head_num=3, hidden_dim=12))
    >>> [layer.name for layer in model.layers][-1], model.count_params()
    ('Encoder-2-FeedForward-Norm', 708)
    """
    for number in range(1, encoder_num + 1):
        input_layer = get_encoder_component(
            f"Encoder-{number}",
            input_layer,
            head_num,
            hidden_dim,
            attention_activation=attention_activation,
            feed_forward_activation=feed_forward_activation,
            dropout_rate=dropout_rate,
            trainable=trainable,
            use_adapter=use_adapter,
            adapter_units=adapter_units,
            adapter_activation=adapter_activation,
        )
    return input_layer
