"""An encoder in words, subject by subject, read from the fields of its anatomy."""

from collections import Counter
from dataclasses import MISSING, dataclass, fields, is_dataclass

from keras_bert_rebuild.anatomy.encoder import Attention, Block, Embedding, Encoder, FeedForward
from keras_bert_rebuild.anatomy.part import ATTENTION, CONVOLUTION, FEED_FORWARD

NONE = "none"

# Status of a step in a comparison of two models.
SAME, CHANGED, ONLY_FIRST, ONLY_SECOND = "same", "changed", "only in A", "only in B"

# Name of a gated unit in Shazeer, 2020 (https://arxiv.org/abs/2002.05202), by the prefix of its activation.
GATES = {"gelu": "GeGLU", "silu": "SwiGLU", "swish": "SwiGLU", "relu": "ReGLU", "sigmoid": "GLU"}


@dataclass(frozen=True)
class Fact:
    """A fact about an encoder."""

    subject: str
    """Its subject, such as "positions"."""

    words: str
    """The fact, such as "learned table of 512", or "none"."""

    roles: tuple = ()
    """The layers that implement it, by their names without `Encoder-{n}-`."""


def facts_of(encoder, heads=()):
    """The facts about an encoder with heads, a tuple of `Fact`s; two encoders are equal if and only if their facts are.

    A field of the anatomy without a subject below is described by its name, so that nothing is left out.

    Args:
        encoder: an `anatomy.Encoder`.
        heads: names of heads.
    """
    facts = [Fact(subject, words(encoder), roles) for subject, words, roles in (*_EMBEDDING, *_BLOCKS)]
    facts += [Fact("heads", ", ".join(heads) or NONE), Fact("head layers", _read_by(encoder, heads))]
    facts += [Fact(subject, words(encoder)) for subject, words, of in _HEADS if not of or set(heads) & set(of)]
    return (*facts, *_without_words(encoder))


def positions_of(encoder):
    """How an encoder encodes positions, in words."""
    first = encoder.embedding.positions
    phrases = [] if first.kind in (NONE, "rotary") else [_position_words(first)]
    rotary_of = Counter(
        (block.attention.rotary.theta, block.attention.window) for block in encoder.blocks if block.attention.rotary
    )
    if rotary_of:
        bases = [f"{name_of(theta)}" + ("" if len(rotary_of) == 1 else f" ({_reach(window)})") for theta, window in rotary_of]
        rotary = [block.attention.rotary for block in encoder.blocks if block.attention.rotary]
        more = dict.fromkeys(words for each in rotary for words in _different(each, ("kind", "rows", "theta")))
        phrases.append(", ".join([f"rotary, theta {', '.join(bases)}", *more]))
    shared = [block.attention.relative for block in encoder.blocks if block.attention.relative]
    phrases += [_position_words(positions) for positions in dict.fromkeys([*shared, *filter(None, [encoder.relative])])]
    return " and ".join(phrases) or NONE


def reach_of(encoder):
    """Which tokens a token attends to, in words."""
    return over_blocks(encoder, lambda block: _reach(block.attention.window, "every token"))


def gate_of(feed_forward):
    """A feed-forward network in words, with the name of its gate if it has one."""
    activation = name_of(feed_forward.activation)
    if not feed_forward.gated:
        return f"{activation}, {feed_forward.inner:,} wide"
    gate = next((f" ({name})" for start, name in GATES.items() if activation.startswith(start)), "")
    return f"{activation}-gated{gate}, {feed_forward.inner:,} wide"


def over_blocks(encoder, words):
    """A description of blocks: one if all are the same, else each with its number of blocks, the most frequent first."""
    counts = Counter(map(words, encoder.blocks))
    if len(counts) < 2:
        return next(iter(counts), NONE)
    total = len(encoder.blocks)
    texts = [f"{text} in {count} of {total} blocks" for text, count in counts.most_common(1)]
    return ", ".join([*texts, *(f"{text} in {count}" for text, count in counts.most_common()[1:])])


def name_of(value):
    """The value of a field in words: functions by name, numbers with separators."""
    if value is None or value == () or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.10g}" if abs(value) >= 1 else f"{value:.4g}".replace("e-0", "e-")
    if isinstance(value, tuple):
        return " and ".join(map(name_of, value))
    if is_dataclass(value):
        return ", ".join(_different(value)) or "as BERT's"
    return value if isinstance(value, str) else getattr(value, "__name__", type(value).__name__)


def _position_words(positions):
    """Positions in words; a kind without words here by its name and its fields that are not defaults."""
    return _KINDS.get(positions.kind, lambda value: ", ".join([value.kind, *_different(value, ("kind", "rows"))]))(positions)


def _table(positions):
    return f"learned table of {positions.rows:,}" + (f", from row {positions.offset}" if positions.offset else "")


def _disentangled(positions):
    own = "shared with queries and keys" if positions.shared_keys else "of their own"
    rows = f"{positions.buckets} buckets on either side" if positions.buckets else f"{positions.rows:,} rows"
    norm = "" if positions.norm is None else ", normalised"
    terms = f"terms {' and '.join(positions.terms)}, projections {own}"
    return f"disentangled, distances up to {positions.reach:,} in {rows}{norm}, {terms}"


_KINDS = {
    "table": _table,
    "sinusoidal": lambda _: "sinusoidal",
    "disentangled": _disentangled,
    "relative": lambda _: "relative: sinusoidal distances, with learned biases for content, position and segment",
}


def _reach(window, unlimited="global"):
    return unlimited if window is None else f"windows of {2 * window:,}"


def _different(value, without=()):
    """The fields of a dataclass that differ from their defaults, in words."""
    for field in fields(value):
        setting = getattr(value, field.name)
        if field.name not in without and (field.default is MISSING or setting != field.default):
            yield f"{_spaced(field.name)} {name_of(setting)}"


def _spaced(name):
    return name.replace("_", " ")


def _tables(encoder):
    embedding = encoder.embedding
    if not embedding.widened:
        return f"{embedding.width:,}"
    return f"{embedding.width:,}, projected to {encoder.width:,} {'before' if embedding.widened_first else 'after'} the norm"


def _norm_of_embedding(encoder):
    if encoder.embedding.norm is None:
        return NONE
    return f"{_norm(encoder.embedding.norm)}, {'before' if encoder.embedding.normalised_first else 'after'} dropout"


def _norm(norm):
    return f"{'layer norm' if norm.kind == 'layer' else norm.kind}, epsilon {name_of(norm.epsilon)}"


def _blocks(encoder):
    runs, distinct = len(encoder.blocks), len(encoder.distinct)
    return f"{runs:,}" if runs == distinct else f"{runs:,} that share the weights of {distinct:,}"


def _order(encoder):
    said = over_blocks(encoder, lambda block: {"post": "post-norm", "pre": "pre-norm"}.get(block.order, block.order))
    bare = sum(not block.first_norm for block in encoder.blocks)
    return said + (f", none before attention in {bare} block{'s' if bare > 1 else ''}" if bare else "")


def _biases(encoder):
    """Which of the layers that could have biases have them."""
    places = {
        "attention": [block.attention.bias for block in encoder.blocks],
        "feed-forward": [block.feed_forward.bias for block in encoder.blocks],
        "norms": [norm.bias for norm in (encoder.embedding.norm, *(block.norm for block in encoder.blocks)) if norm is not None],
    }
    said = [place if all(has) else f"some of {place}" for place, has in places.items() if any(has)]
    return ", ".join(said) or NONE


def _dropout(encoder):
    rates = {
        "the embedding": name_of(encoder.embedding.dropout),
        "attention probabilities": over_blocks(encoder, lambda block: name_of(block.attention.dropout)),
        "attention outputs": over_blocks(
            encoder,
            lambda block: name_of(block.dropout if block.attention.output_dropout is None else block.attention.output_dropout),
        ),
        "feed-forward outputs": over_blocks(encoder, lambda block: name_of(block.dropout)),
        "feed-forward values": over_blocks(encoder, lambda block: name_of(block.feed_forward.dropout)),
    }
    return ", ".join(f"{rate} of {what}" for what, rate in rates.items() if rate not in ("0", NONE)) or NONE


def _convolution(block):
    convolution = block.convolution
    return NONE if convolution is None else f"{convolution.size} tokens, {name_of(convolution.activation)}"


# Subject, its words for an encoder, and the layers that compute it.
_EMBEDDING = (
    ("vocabulary size", lambda encoder: f"{encoder.embedding.tokens:,}", ("Embedding-Token",)),
    ("padding id", lambda encoder: name_of(encoder.embedding.pad_id), ("Embedding-Token",)),
    ("maximum length", lambda encoder: f"{encoder.embedding.positions.rows - encoder.embedding.positions.offset:,} tokens", ()),
    ("embedding width", _tables, ("Embedding-Token", "Embedding-Mapping")),
    ("token embedding scale", lambda encoder: f"{encoder.embedding.scale:.4g}", ("Embedding-Scale",)),
    ("segments", lambda encoder: name_of(encoder.embedding.segments or None), ("Embedding-Segment", "Input-Token")),
    ("tasks", lambda encoder: name_of(encoder.embedding.tasks or None), ("Embedding-Task",)),
    ("positions", positions_of, ("Embedding-Position", "Embedding-Relative", "Embedding-Relative-Norm", ATTENTION)),
    ("embedding norm", _norm_of_embedding, ("Embedding-Norm",)),
)
_BLOCKS = (
    ("blocks", _blocks, ()),
    ("width", lambda encoder: f"{encoder.width:,}", ()),
    ("norm", _order, (f"{ATTENTION}-Norm", f"{FEED_FORWARD}-Norm")),
    (
        "norm type",
        lambda encoder: over_blocks(encoder, lambda block: _norm(block.norm)),
        (f"{ATTENTION}-Norm", f"{FEED_FORWARD}-Norm"),
    ),
    ("attention heads", lambda encoder: over_blocks(encoder, lambda block: name_of(len(block.attention.present))), (ATTENTION,)),
    ("attention to", reach_of, (ATTENTION,)),
    (
        "attention activation",
        lambda encoder: over_blocks(encoder, lambda block: name_of(block.attention.activation)),
        (ATTENTION,),
    ),
    ("feed-forward", lambda encoder: over_blocks(encoder, lambda block: gate_of(block.feed_forward)), (FEED_FORWARD,)),
    ("biases", _biases, ("Embedding-Norm", ATTENTION, FEED_FORWARD, f"{ATTENTION}-Norm", f"{FEED_FORWARD}-Norm")),
    ("dropout", _dropout, ()),
    ("adapters", lambda encoder: over_blocks(encoder, lambda block: name_of(block.adapter or None)), ()),
    ("convolution", lambda encoder: over_blocks(encoder, _convolution), (CONVOLUTION,)),
    ("final norm", lambda encoder: NONE if encoder.final_norm is None else _norm(encoder.final_norm), ("Encoder-Norm",)),
    ("initializer range", lambda encoder: name_of(encoder.initializer_range), ()),
    ("output initializer range", lambda encoder: name_of(encoder.output_range), ()),
)

# Subject, its words, and the heads that have it; none for all.
_ON_TRANSFORM, _WITH_DROPOUT = ("mlm",), ("classification", "token_classification", "multiple_choice")
_HEADS = (
    ("classes", lambda encoder: name_of(encoder.labels or None), ()),
    ("conditional random field", lambda encoder: name_of(encoder.crf), ("token_classification",)),
    ("MLM head activation", lambda encoder: name_of(encoder.mlm_activation), _ON_TRANSFORM),
    ("MLM head biases", lambda encoder: _mlm_biases(encoder), _ON_TRANSFORM),
    ("MLM head norm", lambda encoder: _norm(encoder.mlm_norm or encoder.embedding.norm), _ON_TRANSFORM),
    ("head dropout", lambda encoder: name_of(encoder.head_dropout), _WITH_DROPOUT),
    ("pooler activation", lambda encoder: name_of(encoder.pooler_activation), ("pooler", "nsp", "sop")),
    ("RTD head activation", lambda encoder: name_of(encoder.rtd_activation), ("rtd",)),
)


def _read_by(encoder, heads):
    """The layers between the last block and the logits of heads, without dropout, which is another subject."""
    between = {name: [layer for layer in encoder.heads[name].reads if not layer.endswith("Dropout")] for name in heads}
    return "; ".join(f"{name}: {', '.join(layers)}" for name, layers in between.items() if layers) or NONE


def _mlm_biases(encoder):
    has = {"transform": encoder.transform_bias, "vocabulary": encoder.vocabulary_bias}
    return ", ".join(place for place, said in has.items() if said) or NONE


# The fields that the subjects above cover, by class; others are described by their names.
_SAID = {
    Embedding: "tokens width norm positions pad_id segments tasks dropout widened normalised_first scale widened_first",
    Block: "number attention feed_forward norm order dropout adapter first_norm convolution",
    Attention: "heads activation dropout bias rotary window output_dropout relative",
    FeedForward: "inner activation gated bias dropout",
    Encoder: "width embedding blocks heads final_norm labels crf head_dropout initializer_range mlm_activation pooler_activation "
    "transform_bias vocabulary_bias output_range rtd_activation mlm_norm relative",
}


def _without_words(encoder):
    """Facts about fields that no subject covers, if they are not the default."""
    places = (
        (Encoder, "", (encoder,), ()),
        (Embedding, "embedding: ", (encoder.embedding,), ()),
        (Block, "block: ", encoder.blocks, ()),
        (Attention, "attention: ", tuple(block.attention for block in encoder.blocks), (ATTENTION,)),
        (FeedForward, "feed-forward: ", tuple(block.feed_forward for block in encoder.blocks), (FEED_FORWARD,)),
    )
    for kind, before, values, roles in places:
        for field in fields(kind):
            if field.name in _SAID[kind].split():
                continue
            counts = Counter(name_of(getattr(value, field.name)) for value in values)
            words = ", ".join(text if len(counts) == 1 else f"{text} in {count}" for text, count in counts.items())
            yield Fact(f"{before}{_spaced(field.name)}", words or NONE, roles)
