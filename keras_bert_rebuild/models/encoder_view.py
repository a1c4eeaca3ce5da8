"""The encoder of a model as an object: its embedding, blocks and final norm, and how they run outside of a call of the model."""

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.anatomy.heads import FIRST_TOKEN, LAST, MEAN, POOLED
from keras_bert_rebuild.kernels.token_layout import TokenLayout
from keras_bert_rebuild.layers import (
    Add,
    Dropout,
    EmbeddingSimilarity,
    FeedForward,
    LayerNormalization,
    MultiHeadSelfAttention,
    RMSNormalization,
)
from keras_bert_rebuild.layers.seam import PLAIN, Execution, executing, seam
from keras_bert_rebuild.models.encoder import FINAL_NORM, TOKEN
from keras_bert_rebuild.models.encoder_blocks import BlockLayers, Context, block_of, input_of, run_block, shared_with
from keras_bert_rebuild.models.heads import before_logits
from keras_bert_rebuild.models.named_tensors import ids_of, token_mask
from keras_bert_rebuild.models.rematerialised import rematerialised_block

# Layers that compute each token by itself, and attention, which knows where tokens are; subclasses may do otherwise.
OF_TOKENS = {Add, Dropout, FeedForward, LayerNormalization, MultiHeadSelfAttention, RMSNormalization}


class Start(NamedTuple):
    """What the blocks of a model read."""

    x: Any
    """The input of the first block, `(batch, length, hidden)`."""

    mask: Any = None
    """`(batch, length)`, False at padding, or for packed rows the numbers of sequences; None for a model without padding."""

    shared: tuple[Any, ...] = ()
    """Further inputs of all blocks, such as a table of distances `(rows, hidden)`."""

    table: Any = None
    """The token table `(vocabulary, embedding)` of a model with an MLM head."""

    @property
    def tokens(self) -> Any:
        """The mask, also of a model without padding."""
        return ops.ones(self.x.shape[:2], "bool") if self.mask is None else self.mask


class EncoderView:
    """The encoder in a model.

    Args:
        host: the functional model that directly contains its layers.
        numbers: the number of each block, from 1, in the order of execution; None to take them from the config of the model.
        graph: the class of `embedding`; with `BertModel` it refuses ids outside their tables.

    Raises:
        ValueError: neither numbers nor a config say which blocks run.
    """

    def __init__(self, host: keras.Model, numbers: Sequence[int] | None = None, graph: type[keras.Model] = keras.Model) -> None:
        config = getattr(host, "config", None)
        if config is None and numbers is None:
            raise ValueError("expected a model with a config, from get_model, build_model or from_pretrained; got one without.")
        self.host, self.graph = host, graph
        self.layers: dict[str, Any] = {layer.name: layer for layer in host.layers}
        """The layers of the host by name."""
        self.anatomy = None if config is None else config.encoder()
        """Its `anatomy.Encoder`; None without a config."""
        described = [] if self.anatomy is None else self.anatomy.blocks
        orders = {block.number: block.order for block in described}
        self.numbers = [block.number for block in described] if numbers is None else list(numbers)
        """The numbers of the blocks in the order of execution: a shared block is repeated as often as it runs."""
        self.blocks: list[BlockLayers] = [block_of(self.layers, n, orders.get(n, "post")) for n in self.numbers]
        """The layers of the blocks, likewise."""
        self.final_norm = self.layers.get(FINAL_NORM)
        """The norm after the last block; None in post-norm models."""

    @functools.cached_property
    def embedding(self) -> keras.Model:
        """The graph up to the first block: the sequence, what all blocks share, and with an MLM head the token table."""
        needed = [tensor for tensor in self.host.inputs if tensor.name != "Input-Masked"]
        table = [self.layers["MLM-Sim"].input[1]] if self._gives_table else []
        return self.graph(bare_if_one(needed), bare_if_one([input_of(self.blocks[0]), *shared_with(self.blocks[0]), *table]))

    @property
    def _gives_table(self) -> bool:
        return isinstance(self.layers.get("MLM-Sim"), EmbeddingSimilarity)

    @property
    def width(self) -> int:
        """The width of the sequence between blocks."""
        return int(self.embedding.outputs[0].shape[-1])

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a text: the rows of the position table, or the maximum in the config."""
        of_table = getattr(self.layers.get("Embedding-Position"), "max_length", None)
        return self.host.config.max_length if of_table is None else of_table

    @property
    def heads(self) -> list[tuple[int, ...]]:
        """For every block, in the order of execution, the indices of its heads; if some were pruned, those before pruning."""
        if self.anatomy is None:
            return [tuple(range(block.attention.head_num)) for block in self.blocks]
        present = {block.number: block.attention.present for block in self.anatomy.blocks}
        return [present[number] for number in self.numbers]

    @property
    def runs_on_tokens_alone(self) -> bool:
        """Whether `on_tokens_alone` suits it: blocks share nothing, and are of layers of ours, without regularised outputs."""
        if self.anatomy is None or self.anatomy.relative is not None:
            return False
        layers = [layer for block in self.blocks for layer in block.layers]
        # Keras divides the loss of a regulariser of outputs by the first dimension, which is 1 there.
        return bool(layers) and all(type(layer) in OF_TOKENS and layer.activity_regularizer is None for layer in layers)

    def arrays(self, inputs: Any) -> dict[str, np.ndarray]:
        """The inputs of the embedding by name, as arrays `(batch, length)`.

        Args:
            inputs: inputs of the model: a dictionary by name, a list in order, or one array; `Input-Masked` may be left out.

        Raises:
            ValueError: an input is missing or is not such an array.
        """
        names = [tensor.name for tensor in self.embedding.inputs]
        if not isinstance(inputs, dict):
            values = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
            keys = names if len(values) == len(names) else [tensor.name for tensor in self.host.inputs]
            if len(values) != len(keys):
                raise ValueError(f"expected {len(names)} inputs, {', '.join(names)}; got {len(values)}.")
            inputs = dict(zip(keys, values, strict=True))
        missing = [name for name in names if name not in inputs]
        if missing:
            raise ValueError(f"expected the inputs {', '.join(names)}; {', '.join(missing)} is missing.")
        return {name: _array(name, inputs[name]) for name in names}

    def embed(self, inputs: Any, training: bool | None = False) -> Start:
        """Run the graph up to the first block.

        Args:
            inputs: the inputs by name, `(batch, length)`; others are ignored.
            training: whether dropout is applied.
        """
        tensors = bare_if_one([inputs[tensor.name] for tensor in self.embedding.inputs])
        x, *shared = keras.tree.flatten(self.embedding(tensors, training=training))
        table = shared.pop() if self._gives_table else None
        return Start(x, token_mask(self.layers, ids_of(self.embedding, inputs)), tuple(shared), table)

    def states(
        self,
        start: Start,
        last: int | None = None,
        *,
        training: bool | None = False,
        gradients: bool = True,
        final_norm: bool = False,
    ) -> Iterator[Any]:
        """The input of the first block, and then the output of every block, each `(batch, length, hidden)`.

        Args:
            start: from `embed`.
            last: the number of blocks to run; None for all.
            training: whether dropout is applied.
            gradients: whether gradients can flow, for which torch saves the activations of every block.
            final_norm: apply it to the output of the last block of the model.
        """
        context, x = Context(mask=start.mask, training=training, shared=start.shared), start.x
        yield x
        for number, block in enumerate(self.blocks[:last], 1):
            x = run_block(block, x, context)
            x = x if gradients else ops.stop_gradient(x)
            yield self.normed(x) if final_norm and number == len(self.blocks) else x

    @seam
    def through_blocks(self, start: Start, training: bool | None = False) -> Any:
        """The output of the last block before the final norm, `(batch, length, hidden)`; arguments as for `states`."""
        for x in self.states(start, training=training):  # noqa: B007
            pass
        return x

    def normed(self, x: Any) -> Any:
        """The output of the last block after the final norm, if there is one."""
        return x if self.final_norm is None else self.final_norm(x)

    def run(self, inputs: Any, execution: Execution = PLAIN, training: bool | None = False) -> Any:
        """The vectors that heads read, `(batch, length, hidden)`, as the model itself computes them.

        Args:
            inputs: as for `embed`.
            execution: how, such as `REMATERIALISED`, or the result of `on_tokens_alone`.
            training: whether dropout is applied.
        """
        with executing(*execution.rules):
            return self.normed(self.through_blocks(self.embed(inputs, training), training))

    def before_logits(self, start: Start, heads: Sequence[str], execution: Execution = PLAIN) -> list[Any]:
        """Run the graph up to the last layers of heads in a training step.

        Args:
            start: from `embed`.
            heads: names of outputs, without that of the MLM head.
            execution: as for `run`.

        Returns:
            The vectors that heads read, and for each head the input of its last layer.
        """
        with executing(*execution.rules):
            x = self.normed(self.through_blocks(start, True))
        answers, reads = [x], before_logits(self.anatomy)
        for head in heads:
            y = x
            for name in reads.get(head, ()):
                settings = {"mask": start.mask} if name in (MEAN, LAST, FIRST_TOKEN, POOLED[0]) else {"training": True}
                y = self.layers[name](y, **settings) if name in self.layers else y
            answers.append(y)
        return answers


# Blocks store only their inputs for the backward pass.
REMATERIALISED = Execution(((run_block, rematerialised_block),))


def on_tokens_alone(tokens: TokenLayout) -> Execution:
    """The execution of blocks on the tokens of a batch, without its padding, where any numbers come out.

    Args:
        tokens: where the tokens are.
    """

    def through_blocks(plain, view, start, training=False):
        return tokens.padded(plain(view, Start(tokens.rows(start.x)), training))

    return Execution((*tokens.rules, (EncoderView.through_blocks, through_blocks)))


def graph_after_tokens(model: keras.Model, outputs: Any = None) -> keras.Model:
    """A model that shares the layers of another one and starts after its token table.

    Its inputs are the token vectors `(batch, length, width)`, the table `(vocabulary, width)` and then those of the model, of which
    the ids are ignored. The layers are called again on symbolic tensors, as in any second model that shares them. (A `keras.Model`
    on tensors within the graph would compute the same, but if it also took an input of the model, that input would get a second
    node, after which Keras could not describe or save the original model.)

    Args:
        model: a functional model with the layer `Embedding-Token`.
        outputs: symbolic tensors of its graph to return; None for the outputs of the model.
    """
    tokens = model.get_layer(TOKEN)
    fresh = [
        keras.Input((None, tokens.output_dim), dtype=tokens.compute_dtype, name="Token-Vectors"),
        keras.Input(batch_shape=(tokens.input_dim, tokens.output_dim), dtype=tokens.compute_dtype, name="Token-Table"),
        *(keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=tensor.name) for tensor in model.inputs),
    ]
    outputs = model.outputs if outputs is None else outputs
    whole = keras.Model([*(keras.Input(x.shape[1:], dtype=x.dtype) for x in fresh[:2]), *model.inputs], outputs)

    def called(layer, *args, **kwargs):
        return fresh[:2] if layer is tokens else layer(*args, **kwargs)

    return keras.models.clone_model(whole, input_tensors=fresh, clone_function=lambda layer: layer, call_function=called)


def _array(name, values):
    try:
        array = np.asarray(ops.convert_to_numpy(values) if ops.is_tensor(values) else values)
    except ValueError:  # lists of several lengths
        raise ValueError(f"{name} must be an array (batch, length); got rows of different lengths.") from None
    if array.ndim != 2:
        raise ValueError(f"{name} must be an array (batch, length); got shape {array.shape}.")
    return array
