"""The parts of an encoder, and those of BERT. A family turns its config into an `Encoder`, which all other code reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from keras_bert_rebuild.anatomy.heads import HEADS, heads_with_dropout_before_pooler


@dataclass(frozen=True)
class Norm:
    """A normalisation over the features of each token."""

    epsilon: float
    """Epsilon, added to the variance."""

    kind: str = "layer"
    """"layer" or "rms" (RMSNorm, which subtracts no mean and has no bias)."""

    bias: bool = True
    """Whether there is a learned bias."""


@dataclass(frozen=True)
class Positions:
    """How the positions of tokens are encoded."""

    kind: str
    """"table": learned vectors added to the embedding; "rotary": queries and keys rotated by an angle proportional to the position;
    "sinusoidal": fixed sines and cosines added to the embedding; "disentangled": content-to-position terms added to the attention
    scores; "relative": scores against sinusoids of distances and segments, with learned biases (Transformer-XL); or "none"."""

    rows: int
    """The maximum sequence length, plus `offset` for a learned table; for disentangled positions the rows of the table of
    distances."""

    offset: int = 0
    """Row of the first position in a learned table."""

    theta: float = 10000.0
    """For rotary positions, the base of the angles: pair i of a head of width K rotates by theta^(-2i/K) per position."""

    reach: int = 0
    """For disentangled and relative positions, the distance beyond which distances are clipped; 0 for no limit."""

    buckets: int = 0
    """For disentangled positions, the number of log buckets for distances on either side; 0 for a row per distance."""

    terms: tuple = ()
    """For disentangled positions, the terms: "c2p", content to position, and "p2c", position to content."""

    shared_keys: bool = False
    """Whether distances share the projections of queries and keys instead of having their own."""

    norm: Norm | None = None
    """The norm of the table of distances; None for no norm."""

    memory: int = 0
    """For relative positions, how many hidden states are cached as memory for the next segment of a text; 0 for all."""

    reused: int = 0
    """For relative positions, how many tokens of a segment may be cached; 0 for all."""

    factor: float = 1.0
    """For rotary positions, the linear scaling factor: positions are divided by it."""


@dataclass(frozen=True)
class Attention:
    """Multi-head self-attention."""

    heads: int
    activation: Any = None
    """Activation of queries, keys, values and the output; None in BERT."""

    dropout: float = 0.0
    """Dropout rate of the attention probabilities."""

    bias: bool = True
    """Whether the four projections have biases."""

    rotary: Positions | None = None
    """Rotary positions of queries and keys."""

    window: int | None = None
    """How many tokens on either side a token attends to; None for all."""

    output_dropout: float | None = None
    """Dropout rate of the output; None for the block's rate."""

    relative: Positions | None = None
    """Disentangled or relative positions, with a table that all blocks share."""

    pruned: tuple[int, ...] = ()
    """Indices of the pruned heads, from 0; the width of the remaining heads does not change."""

    head_width: int | None = None
    """Width of a head if some are pruned; None for the width of the block divided by the number of heads."""

    @property
    def present(self) -> tuple[int, ...]:
        """Indices of the heads that are not pruned."""
        return tuple(head for head in range(self.heads) if head not in self.pruned)


@dataclass(frozen=True)
class Convolution:
    """A convolution over the input of a block; its output is added to that of the block."""

    size: int
    """Kernel size in tokens, odd."""

    width: int
    """Width of the vectors."""

    activation: Any


@dataclass(frozen=True)
class FeedForward:
    """Two dense layers; if gated, the output of the first is multiplied by the activation of a third."""

    inner: int
    activation: Any
    gated: bool = False
    bias: bool = True
    dropout: float = 0.0
    """Dropout rate of the values between the two layers."""

    output_bias: bool | None = None
    """Whether the second layer has a bias; None for `bias`."""


@dataclass(frozen=True)
class Block:
    """An encoder block. Two blocks of the same number share their weights."""

    number: int
    """Counted from 1; the names of its layers start with `Encoder-number-`."""

    attention: Attention
    feed_forward: FeedForward
    norm: Norm
    order: str = "post"
    """"post": x = norm(x + f(x)). "pre": x = x + f(norm(x))."""

    dropout: float = 0.0
    """Dropout rate of the output of each sub-layer, before the residual is added."""

    adapter: int = 0
    """Width of the adapter after each sub-layer; 0 for no adapters."""

    first_norm: bool = True
    """False if attention reads the output of the embedding's norm without another norm, as in the first block of ModernBERT."""

    convolution: Convolution | None = None
    """A convolution parallel to the block; the sum of both outputs is normalised."""


@dataclass(frozen=True)
class Embedding:
    """Tables whose vectors are added, and the layers after the sum."""

    tokens: int
    width: int
    norm: Norm | None
    """None if the sum is not normalised."""

    positions: Positions
    pad_id: int = 0
    segments: int = 0
    tasks: int = 0
    dropout: float = 0.0
    widened: bool = False
    """Whether a dense layer projects the vectors to the width of the blocks (factorised embedding)."""

    normalised_first: bool = False
    """Whether dropout comes after the norm; in keras_bert's graph it comes before."""

    scale: float = 1.0
    """Factor applied to the token vectors before anything is added."""

    widened_first: bool = False
    """Whether that dense layer comes before the norm and has no bias."""

    query: bool = False
    """Whether there is the vector of XLNet's query stream, which the content stream does not read."""

    query_trained: bool = False
    """Whether that vector is trainable."""


@dataclass(frozen=True)
class Encoder:
    """An encoder and the heads it can have."""

    width: int
    """Hidden size: the width of the vectors between blocks."""

    embedding: Embedding
    blocks: tuple
    """The `Block`s in order."""

    heads: Mapping[str, Any] = field(default_factory=dict)
    """Name of a head to its `heads.Head`, in the order of outputs."""

    final_norm: Norm | None = None
    """The norm after the last block of a pre-norm encoder."""

    labels: int = 0
    """Number of classes of the classification heads."""

    crf: bool = False
    """Whether token classification ends in a conditional random field."""

    head_dropout: float = 0.0
    """Dropout rate before the last layer of classification heads."""

    initializer_range: float | None = None
    """Standard deviation of the truncated normal that initialises kernels and tables; None for the default of each layer."""

    mlm_activation: Any = None
    pooler_activation: Any = None
    transform_bias: bool = True
    """Whether the dense layer of the MLM head has a bias."""

    vocabulary_bias: bool = True
    """Whether the MLM head has a bias for every token of the vocabulary."""

    output_range: float | None = None
    """Standard deviation for the transform and the output projection of each sub-layer; None for `initializer_range`."""

    rtd_activation: Any = None
    """Activation of the dense layer before the logits of the head "rtd"."""

    mlm_norm: Norm | None = None
    """The norm of the MLM head; None for the same as that of the embedding."""

    relative: Positions | None = None
    """Disentangled or relative positions, with a table that all blocks read."""

    @property
    def reads_segments(self) -> bool:
        """Whether the model has a segment input: for added segment vectors, or for the segment term of relative attention."""
        return self.embedding.segments > 0 or (self.relative is not None and self.relative.kind == "relative")

    @property
    def any_length(self) -> bool:
        """Whether texts may have any length: positions are relative, and vectors of distances are computed, not looked up."""
        return self.relative is not None and self.relative.kind == "relative"

    @property
    def distinct(self) -> tuple:
        """The blocks with distinct weights, in the order of their numbers."""
        return tuple({block.number: block for block in self.blocks}.values())


def bert_encoder(config):
    """The `Encoder` of a `BertConfig`.

    Reference: Devlin et al., 2019, section 3 (https://arxiv.org/abs/1810.04805); Lan et al., 2020, section 3.1
    (https://arxiv.org/abs/1909.11942), for shared blocks and factorised embeddings.
    """
    norm, pruned = Norm(config.layer_norm_eps), dict(config.pruned_heads)
    head_width = config.hidden_size // config.num_attention_heads
    attention = Attention(config.num_attention_heads, config.attention_act, config.attention_probs_dropout_prob)
    narrower = {block: replace(attention, pruned=heads, head_width=head_width) for block, heads in pruned.items()}
    return Encoder(
        width=config.hidden_size,
        embedding=Embedding(
            tokens=config.vocab_size,
            width=config.embedding_width,
            norm=norm,
            positions=Positions("table", config.max_position_embeddings, config.position_offset),
            pad_id=config.pad_token_id,
            segments=config.type_vocab_size,
            tasks=config.num_tasks,
            dropout=config.hidden_dropout_prob,
            widened=config.embedding_size is not None,
        ),
        blocks=tuple(
            Block(
                number=config.block_of_layer(layer) + 1,
                attention=narrower.get(config.block_of_layer(layer), attention),
                feed_forward=FeedForward(config.intermediate_size, config.hidden_act),
                norm=norm,
                dropout=config.hidden_dropout_prob,
                adapter=config.adapter_size,
            )
            for layer in range(config.num_hidden_layers)
        ),
        heads=HEADS if not config.dropout_before_pooler else heads_with_dropout_before_pooler(),
        labels=len(config.labels),
        crf=config.crf,
        head_dropout=config.hidden_dropout_prob if config.classifier_dropout is None else config.classifier_dropout,
        initializer_range=config.initializer_range,
        mlm_activation=config.hidden_act if config.mlm_act is None else config.mlm_act,
        pooler_activation=config.pooler_act,
        rtd_activation=config.hidden_act,
    )
