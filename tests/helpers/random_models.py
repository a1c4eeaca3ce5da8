"""Valid models at random: small configs of every family, their heads and lengths."""

from dataclasses import dataclass, fields

import hypothesis.strategies as st

from keras_bert_rebuild import BertConfig
from keras_bert_rebuild.config import CONFIG_CLASSES, HEADS
from keras_bert_rebuild.families import CLASSES, FAMILIES, derived
from keras_bert_rebuild.families import own as optional

RATES = st.sampled_from((0.0, 0.1, 0.5))
ACTIVATIONS = st.sampled_from(("gelu", "gelu_erf", "quick_gelu", "relu", "relu6", "silu", "tanh", "sigmoid", "mish", "linear"))

# The fields that a Hugging Face file has for every family, without the sizes that depend on each other.
FIELDS = {
    "vocab_size": st.integers(5, 40),
    "num_hidden_layers": st.integers(0, 2),
    "intermediate_size": st.integers(1, 9),
    "hidden_act": ACTIVATIONS,
    "hidden_dropout_prob": RATES,
    "attention_probs_dropout_prob": RATES,
    "classifier_dropout": st.none() | RATES,
    "max_position_embeddings": st.integers(9, 20),
    "type_vocab_size": st.integers(1, 3),
    "initializer_range": st.sampled_from((0.02, 0.5)),
    "layer_norm_eps": st.sampled_from((1e-12, 1e-5, 1e-3)),
    "pad_token_id": st.integers(0, 3),
    "embedding_size": st.integers(1, 6),
}

# The fields that only our own files have.
OWN_FIELDS = {
    "embedding_size": st.none() | st.integers(1, 6),
    "initializer_range": st.none() | st.sampled_from((0.02, 0.5)),
    "type_vocab_size": st.integers(0, 3),
    "position_offset": st.integers(0, 4),
    "num_tasks": st.integers(0, 2),
    "adapter_size": st.integers(0, 2),
    "mlm_act": st.none() | ACTIVATIONS,
    "pooler_act": st.none() | ACTIVATIONS,
    "attention_act": st.none() | ACTIVATIONS,
    "dropout_before_pooler": st.booleans(),
}


@dataclass
class Case:
    """A model to build, and what to do with it."""

    config: BertConfig
    heads: tuple
    in_own_format: bool
    seq_len: int | None
    padding_mask: bool
    seed: int


@st.composite
def cases(draw):
    """A `Case`."""
    family = draw(st.sampled_from(sorted(set(FAMILIES) - set(CONFIG_CLASSES))))
    module, own = FAMILIES[family], draw(st.booleans())
    said = {field for field, _ in module.CONFIG}
    if own:
        values = {name: draw(strategy) for name, strategy in (FIELDS | OWN_FIELDS).items()}
    else:
        values = {**optional(module, "DEFAULTS"), **{name: draw(strategy) for name, strategy in FIELDS.items() if name in said}}
    heads = values["num_attention_heads"] = draw(st.integers(1, 3))
    values["hidden_size"] = heads * draw(st.integers(1, 4))
    values["labels"] = tuple(f"label {i}" for i in range(draw(st.integers(1, 3))))
    classes = [heads for heads, _ in CLASSES if set(heads) <= set(module.HUGGINGFACE.heads)]
    chosen = draw(st.sets(st.sampled_from(HEADS)) if own else st.sampled_from(classes))
    if not chosen:  # then the output is the one of a block
        values["num_hidden_layers"] = max(values["num_hidden_layers"], 1)
    if own or "num_hidden_groups" in said:
        divisors = [n for n in (1, 2) if values["num_hidden_layers"] % n == 0]
        values["num_hidden_groups"] = draw(st.sampled_from([None, *divisors] if own else divisors))
    config = BertConfig(family=family, **values)
    if heads > 1:
        config = config.replace(pruned_heads=draw(st.dictionaries(*_pruned(config.num_distinct_blocks, heads))))
    if not own:
        config = derived(config)
    return Case(
        config,
        tuple(head for head in HEADS if head in chosen),
        own,
        draw(st.none() | st.integers(3, config.max_length)),
        own and draw(st.booleans()),
        draw(st.integers(0, 2**31 - 1)),
    )


def _pruned(blocks, heads):
    """Strategies for keys and values of `pruned_heads`: numbers of blocks, and of some heads but not all."""
    chosen = st.lists(st.integers(0, heads - 1), min_size=1, max_size=heads - 1, unique=True)
    return (st.sampled_from(range(blocks)) if blocks else st.nothing()), chosen


UNDRAWN = {"crf", "family", "hidden_size", "num_attention_heads", "num_hidden_groups", "labels", "problem_type", "pruned_heads"}
assert set(FIELDS) | set(OWN_FIELDS) | UNDRAWN == {field.name for field in fields(BertConfig)}
