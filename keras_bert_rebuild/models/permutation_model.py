"""XLNet: the model class of its pretraining, in which every token to predict attends to those before it in a random prediction
order; its two streams; and reading a long text segment by segment."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
from keras import ops

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.layers.masks import at_positions
from keras_bert_rebuild.layers.seam import executing
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.encoder_blocks import RELATIVE, Context, run_block
from keras_bert_rebuild.models.encoder_view import EncoderView, Start
from keras_bert_rebuild.models.named_tensors import ids_of, in_order
from keras_bert_rebuild.models.pretraining_graph import PretrainingGraph
from keras_bert_rebuild.models.pretraining_model import PretrainingModel
from keras_bert_rebuild.models.running_step import RunningStep, running_step
from keras_bert_rebuild.models.step_plan import StepPlan

ORDER = "Input-Order"


class PermutationModel(PretrainingModel):
    """An XLNet that learns by predicting tokens in random orders; create it with `build_permutation_model`.

        p(token i | the tokens j with order_j < order_i)        order 0: given, visible to all

    Its layers, weights and summary are those of `model`. Every other use runs the content stream; here the head reads the query
    stream, also in a call. Tokens to predict are unchanged in the input: the streams hide them.

    Inputs: `Input-Token`; `Input-Segment`; `Input-Order`, 0 at given tokens, at others the rank in the prediction order, from 1;
    `Input-Masked`, 1 at tokens to predict. All `(batch, length)`, int32. The labels are the tokens. Output: `MLM`.

    It cannot be saved itself: save `model`.

    Reference: Yang et al., 2019, sections 2.2 and 2.3 (https://arxiv.org/abs/1906.08237).
    """

    model: PretrainingModel
    """A `PretrainingModel` of these layers, without the query stream."""

    @functools.cached_property
    def _graph(self):
        return PermutationGraph(self)

    def call(self, inputs, training=None, mask=None, **kwargs):
        step = running_step(self)
        plan = self._plan if step is not None and self._plan.changes(step.kind) else StepPlan()
        return in_order(self.output_names, self._graph.outputs(plan, step, inputs, training))

    def get_config(self) -> dict[str, Any]:
        raise ValueError("a PermutationModel cannot be saved itself: save its part, model.model, or a checkpoint.")


class PermutationGraph(PretrainingGraph):
    """The parts of the graph that a step of a `PermutationModel` runs: embedding, two streams and head.

    Args:
        model: the model.
    """

    def __init__(self, model: PermutationModel) -> None:
        super().__init__(model.model, model)

    def hidden_at(self, positions: Any, plan: StepPlan, step: RunningStep | None, inputs: Any, training: bool | None) -> list[Any]:
        ids = ids_of(self.whole, inputs)
        start = self.view.embed(ids, training)
        with executing(*self.execution_of(plan, step).rules):
            return [two_streams(self.view, start, hidden_by(ids[ORDER]), positions, training), start.table]


def hidden_by(order: Any) -> Any:
    """Which tokens an order hides from each token: those of equal or higher rank, `(batch, length, length)`, bool.

    Args:
        order: 0 at given tokens, and the rank in the prediction order, from 1, at others, `(batch, length)`.
    """
    return ops.logical_and(ops.not_equal(order[:, None, :], 0), order[:, None, :] >= order[:, :, None])


def build_permutation_model(config: BertConfig, seq_len: int | None = None) -> PermutationModel:
    """Build an XLNet with random weights that learns in two streams.

    Args:
        config: an `XLNetConfig` with at least one block.
        seq_len: static length of the inputs, or None for any.

    Returns:
        A `PermutationModel`.

    Raises:
        ValueError: the config belongs to another family, or has no block.
    """
    if not config.encoder().embedding.query:
        raise ValueError(f"a two-stream model must be of the family xlnet; got {config.family}.")
    model = build_model(config, ["mlm"], seq_len=seq_len, query_trained=True)
    two_stream_view(model)
    *inputs, masked = model.inputs
    order = keras.Input((seq_len,), dtype="int32", name=ORDER)
    whole = PermutationModel([*inputs, order, masked], model.outputs[0])
    whole.config, whole.model = config, model
    return whole


# The layer with the initial vector of queries, and the dropout after it.
QUERY, QUERY_DROPOUT = "Embedding-Query", "Embedding-Dropout"


def run_two_streams(model: keras.Model, inputs: Any, hidden: Any, positions: Any = None, training: bool | None = None) -> Any:
    """Run the query stream through the blocks of a model, together with the content stream.

        h = h_block(queries h, keys and values h)        token i attends to what `hidden` does not hide from it, and to itself
        g = g_block(queries g, keys and values h)        token i attends to what `hidden` does not hide from it

    Both streams have the same weights. h starts from the token embeddings, g from the single vector of `QueryEmbedding`, and gets
    its position only from relative distances. The last block runs for g only.

    Args:
        model: an XLNet with a config; heads are not run.
        inputs: the inputs of the model, a list of arrays `(batch, length)` in order or a dictionary by name.
        hidden: nonzero if a token (second axis) must not attend to another (third axis), `(batch, length, length)`; the `perm_mask`
            of other libraries. Padding is hidden from all.
        positions: positions of the queries, `(batch, slots)`; None for a query at every token.
        training: whether dropout is applied.

    Returns:
        The vectors of the queries after the last block, `(batch, slots, hidden)`.

    Raises:
        ValueError: the model has no query vector, or no block.

    Reference: Yang et al., 2019, section 2.3 (https://arxiv.org/abs/1906.08237).
    """
    view = two_stream_view(model)
    return two_streams(view, view.embed(ids_of(model, inputs), training), hidden, positions, training)


def two_stream_view(model: keras.Model) -> EncoderView:
    """The encoder of a model, after a check that it can run two streams.

    Raises:
        ValueError: the model has no query vector, no config or no block.
    """
    names = [layer.name for layer in model.layers]
    if QUERY not in names or getattr(model, "config", None) is None or not model.config.num_hidden_layers:
        raise ValueError(f"two streams need a model with a query vector, a config and a block, such as an XLNet; got {model.name}.")
    return EncoderView(model)


def two_streams(view: EncoderView, start: Start, hidden: Any, positions: Any, training: bool | None) -> Any:
    """The vectors of the queries, as for `run_two_streams`.

    Args:
        view: the encoder, from `two_stream_view`.
        start: from its `embed`: the sequence, the sinusoids of the distances, and where segments differ.
        hidden, positions, training: as for `run_two_streams`.
    """
    content, (table, differ) = start.x, start.shared
    seen = ops.logical_and(ops.equal(hidden, 0), start.mask[:, None, :])
    itself = ops.eye(ops.shape(content)[1], dtype="bool")[None]
    of_content = Context(mask=ops.logical_or(seen, itself)[:, None], training=training, shared=(table, differ))
    rows, other = (_rows_at(values, positions) for values in (seen, differ))
    of_query = Context(mask=rows[:, None], positions=positions, training=training, shared=(table, other))
    vector = ops.cast(ops.convert_to_tensor(view.layers[QUERY].vector), content.dtype)
    query = ops.broadcast_to(vector[None], (*ops.shape(rows)[:2], ops.shape(content)[2]))
    if QUERY_DROPOUT in view.layers:
        query = view.layers[QUERY_DROPOUT](query, training=training)
    for number, block in enumerate(view.blocks, 1):
        query = run_block(block, query, replace(of_query, content=content))
        if number < len(view.blocks):
            content = run_block(block, content, of_content)
    return query


def _rows_at(values, positions):
    """The rows of some tokens of a boolean array `(batch, length, length)`."""
    return values if positions is None else ops.cast(at_positions(ops.cast(values, "int32"), positions), "bool")


def run_with_memories(model: keras.Model, inputs: Any, memories: Sequence[Any] | None = None) -> tuple[Any, list[Any]]:
    """Read a segment of a text, whose tokens also attend to those of the previous segment.

    In every block, the tokens of its memory precede the sequence as keys at their true distances, in segment 0, without padding.
    The next memory of a block is the last `mem_len` tokens of its memory followed by the first `reuse_len` of its inputs. Gradients
    do not flow into memories.

    The computation is that of a text with as many tokens as memories and segment together.

    Args:
        model: an XLNet with a config; heads are not run.
        inputs: the inputs of the model, a list of arrays `(batch, length)` in order or a dictionary by name.
        memories: the memories that the call for the previous segment returned; None for the first segment.

    Returns:
        The vectors after the last block, `(batch, length, hidden)`, and a memory `(batch, tokens, hidden)` for each block.

    Raises:
        ValueError: the model has no relative attention, or there is not a memory of this batch for each block.

    Reference: Dai et al., 2019, section 3.2 (https://arxiv.org/abs/1901.02860); Yang et al., 2019, section 2.4
    (https://arxiv.org/abs/1906.08237).
    """
    config = getattr(model, "config", None)
    relative = None if config is None else config.encoder().relative
    if relative is None or relative.kind != "relative":
        raise ValueError(f"memories need a model with relative attention and a config, such as an XLNet; got {model.name}.")
    view, ids = EncoderView(model), ids_of(model, inputs)
    x, real, *_ = view.embed(ids)
    _check(memories, view.blocks, x)
    past = 0 if memories is None else memories[0].shape[1]
    segments = _after(ops.zeros((x.shape[0], past), "int32"), ids["Input-Segment"])
    width = past + x.shape[1]
    shared = (view.layers[RELATIVE].vectors(width, width, x.shape[-1]), view.layers[f"{RELATIVE}-Segment"](segments))
    mask = _after(ops.ones((x.shape[0], past), "bool"), real)
    context, following = Context(mask=mask, training=False, shared=shared), []
    for number, block in enumerate(view.blocks):
        memory = x[:, :0] if memories is None else ops.cast(ops.convert_to_tensor(memories[number]), x.dtype)
        reused = _after(memory, x[:, : relative.reused or None])
        following.append(ops.stop_gradient(reused[:, max(0, reused.shape[1] - (relative.memory or reused.shape[1])) :]))
        x = run_block(block, _after(memory, x), context)[:, past:]
    return x, following


def _after(first, second):
    return ops.concatenate([first, second], axis=1)


def _check(memories, blocks, x):
    """Refuse memories unless there is one for each block, all of the same length, with batch and width of the sequence."""
    if memories is None:
        return
    shapes = [tuple(memory.shape) for memory in memories]
    fitting = len(set(shapes)) == 1 and len(shapes[0]) == 3 and (shapes[0][0], shapes[0][2]) == (x.shape[0], x.shape[2])
    if len(shapes) != len(blocks) or not fitting:
        raise ValueError(
            f"memories must be {len(blocks)} arrays ({x.shape[0]}, tokens, {x.shape[2]}), one for each block; got "
            f"{len(shapes)} of shapes {', '.join(map(str, dict.fromkeys(shapes)))}."
        )
