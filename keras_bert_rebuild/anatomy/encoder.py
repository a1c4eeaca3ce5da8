"""The parts that an encoder is made of, and BERT's. A family turns its config into an `Encoder`; everything else reads that."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from keras_bert_rebuild.anatomy.heads import HEADS, heads_with_dropout_before_pooler
from keras_bert_rebuild.anatomy.positions import Norm, Positions


@dataclass(frozen=True)
class Attention:
    """Self-attention with several heads."""

    heads: int
    activation: Any = None
    """Activation of queries, keys, values and the output; None in BERT."""

    dropout: float = 0.0
    """Rate at which probabilities are dropped."""

    bias: bool = True
    """Whether the four projections have biases."""

    rotary: Positions | None = None
    """Rotary positions of queries and keys."""

    window: int | None = None
    """Tokens on either side that a token attends to; None for all."""

    output_dropout: float | None = None
    """Dropout rate of the output; None for that of the block."""

    relative: Positions | None = None
    """Disentangled or relative positions, whose table the blocks share."""

    pruned: tuple[int, ...] = ()
    """Heads that were taken away, of those that are counted from 0; the others are as wide as they were."""

    head_width: int | None = None
    """Width of a head if some were taken away; None for the width of the block, divided by the heads."""

    @property
    def present(self) -> tuple[int, ...]:
        """The heads that are there."""
        return tuple(head for head in range(self.heads) if head not in self.pruned)


@dataclass(frozen=True)
class Convolution:
    """A convolution over the input of a block, added to its output."""

    size: int
    """Tokens that it sees, an odd number."""

    width: int
    """Width of the vectors."""

    activation: Any


@dataclass(frozen=True)
class FeedForward:
    """Two dense layers; if gated, the activation of a third is multiplied with the first."""

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
    """An encoder block. The same number twice in a stack is the same block twice: shared weights."""

    number: int
    """Counted from 1; its layers are called `Encoder-number-...`."""

    attention: Attention
    feed_forward: FeedForward
    norm: Norm
    order: str = "post"
    """"post": x = norm(x + f(x)). "pre": x = x + f(norm(x))."""

    dropout: float = 0.0
    """Dropout rate of the output of each half, before it is added."""

    adapter: int = 0
    """Width inside an adapter after each half; 0 for none."""

    first_norm: bool = True
    """False if attention directly reads the output of the embedding's norm, as in the first block of ModernBERT."""

    convolution: Convolution | None = None
    """A convolution beside the block; the sum is normalised."""


@dataclass(frozen=True)
class Embedding:
    """Tables that are added, and what follows them."""

    tokens: int
    width: int
    norm: Norm | None
    """None if the sum goes to the blocks as it is."""

    positions: Positions
    pad_id: int = 0
    segments: int = 0
    tasks: int = 0
    dropout: float = 0.0
    widened: bool = False
    """Whether a dense layer projects the vectors to the width of the blocks."""

    normalised_first: bool = False
    """Whether dropout follows the norm; in BERT's graph it precedes it."""

    scale: float = 1.0
    """Factor of the vectors of tokens, before anything is added to them."""

    widened_first: bool = False
    """Whether that layer comes before the norm and has no bias."""

    query: bool = False
    """Whether there is a vector from which a second stream would predict tokens; the stream of contents does not read it."""

    query_trained: bool = False
    """Whether that vector is trained."""


@dataclass(frozen=True)
class Encoder:
    """An encoder and the heads that it can have."""

    width: int
    """Width of the vectors between blocks."""

    embedding: Embedding
    blocks: tuple
    """`Block`s in the order in which they run."""

    heads: Mapping[str, Any] = field(default_factory=dict)
    """Name of a head to its `heads.Head`, in the order of outputs."""

    final_norm: Norm | None = None
    """The norm after the last block, for blocks that normalise before and not after."""

    labels: int = 0
    """Number of classes of the classification heads."""

    crf: bool = False
    """Whether token classification has a conditional random field."""

    head_dropout: float = 0.0
    """Dropout rate before the last layer of a classification head."""

    initializer_range: float | None = None
    """Standard deviation of the truncated normal of new kernels and tables; None for the default of each layer."""

    mlm_activation: Any = None
    pooler_activation: Any = None

    transform_bias: bool = True
    """Whether the dense layer of the MLM head has a bias."""

    vocabulary_bias: bool = True
    """Whether every token of the vocabulary has a bias in the MLM head."""

    output_range: float | None = None
    """Standard deviation of new output projections of the halves of blocks and of the transform; None for `initializer_range`."""

    rtd_activation: Any = None
    """Activation of the dense layer before the logits of the head "rtd"."""

    mlm_norm: Norm | None = None
    """The norm of the MLM head; None for that of the embedding."""

    relative: Positions | None = None
    """Disentangled or relative positions, whose table all blocks read."""

    @property
    def reads_segments(self) -> bool:
        """Whether the model has the input of segments: their vectors are added, or relative attention compares them."""
        return self.embedding.segments > 0 or (self.relative is not None and self.relative.kind == "relative")

    @property
    def any_length(self) -> bool:
        """Whether a text may have any length, since only distances count and all of them are computed."""
        return self.relative is not None and self.relative.kind == "relative"

    @property
    def distinct(self) -> tuple:
        """The blocks with their own weights, in the order of their numbers."""
        return tuple({block.number: block for block in self.blocks}.values())


def bert_encoder(config):
    """The `Encoder` of a `BertConfig`.

    Reference: Devlin et al., 2019, section 3 (https://arxiv.org/abs/1810.04805); Lan et al., 2020, section 3.1
    (https://arxiv.org/abs/1909.11942), for shared blocks and narrow tables.
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
