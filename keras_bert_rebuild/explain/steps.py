"""The steps of a model as data: what each is, and its formulas."""

from dataclasses import dataclass, replace

from keras_bert_rebuild.config import HEADS, ON_POOLER

EMBEDDING, BLOCK, HEAD = "Embedding", "Encoder block", "Heads"


@dataclass(frozen=True)
class Step:
    """A step of the article, or one that other members of the family have besides. Formulas are those of `formulas.py`."""

    article: int | None
    """Its number in the article; None for what the article's model does not have."""

    part: str
    """Embedding, encoder block or heads."""

    name: str
    """What it is."""

    layer: str
    """The layer or layers of the model, `{n}` for the number of the block."""

    params: str
    """Its parameters; of one block, where it is in a block."""

    flops: str
    """Multiplications and additions of its matrix products in a forward pass; of one run of the block."""

    kept: str
    """Values in the dtype of computation that a training step keeps for its backward pass; of one run of the block."""

    kept_float32: str
    """Such values that are float32 whatever the dtype."""


# Of every step its number in the article, part, name, layer and parameters.
PARAMETERS: tuple = (
    (1,    EMBEDDING, "Inputs",             "Input-Token, Input-Segment",              "0"),
    (2,    EMBEDDING, "Token embedding",    "Embedding-Token",                         "T·E"),
    (3,    EMBEDDING, "Segment embedding",  "Embedding-Segment",                       "{segments}·E"),
    (4,    EMBEDDING, "Position embedding", "Embedding-Position",                      "E·P"),
    (None, EMBEDDING, "Task embedding",     "Embedding-Task",                          "K·E"),
    (5,    EMBEDDING, "Normalisation",      "Embedding-Norm",                          "2·E"),
    (None, EMBEDDING, "Widening",           "Embedding-Mapping",                       "E·H + H"),
    (6,    BLOCK,     "Attention",          "Encoder-{n}-MultiHeadSelfAttention",      "A·D·(D/A)·3 + 3·D + D·D + D"),
    (None, BLOCK,     "Adapter",            "Encoder-{n}-MultiHeadSelfAttention-Adapter", "(H·U + U) + (U·H + H)"),
    (7,    BLOCK,     "Normalisation",      "Encoder-{n}-MultiHeadSelfAttention-Norm", "2·H"),
    (8,    BLOCK,     "Feed-forward",       "Encoder-{n}-FeedForward",                 "(H·FFD + FFD) + (FFD·H + H)"),
    (None, BLOCK,     "Adapter",            "Encoder-{n}-FeedForward-Adapter",         "(H·U + U) + (U·H + H)"),
    (9,    BLOCK,     "Normalisation",      "Encoder-{n}-FeedForward-Norm",            "2·H"),
    (10,   HEAD,      "MLM transform",      "MLM-Dense",                               "H·E + E"),
    (11,   HEAD,      "MLM normalisation",  "MLM-Norm",                                "2·E"),
    (12,   HEAD,      "MLM vocabulary",     "MLM-Sim",                                 "T"),
    (13,   HEAD,      "Pooler",             "NSP-Dense",                               "D·D + D"),
    (14,   HEAD,      "Next sentence",      "NSP",                                     "2·D + 2"),
    (None, HEAD,      "Sentence order",     "SOP",                                     "2·H + 2"),
    (None, HEAD,      "Classes of a text",  "Classification",                          "C·H + C"),
    (None, HEAD,      "Classes of tokens",  "Token-Classification",                    "C·H + C"),
    (None, HEAD,      "What follows what",  "Token-Classification-CRF",                "C·C + 2·C"),
    (None, HEAD,      "Start and end",      "Question-Answering",                      "2·H + 2"),
    (None, HEAD,      "Fit of a choice",    "Multiple-Choice",                         "H + 1"),
)  # fmt: skip

# Of every layer that computes: operations of its matrix products, values kept, and values kept in float32 whatever the dtype.
#
# Kept is what the backward pass of a layer needs and no other layer is said to keep: what a product multiplies, what an activation
# and a norm started from, the probabilities of attention and of the outputs. Masks of dropout, a byte each, are left out.
#
# Reference: Korthikanti et al., 2022, section 4.1 (https://arxiv.org/abs/2205.05198).
WORK: dict[str, tuple] = {
    "Embedding-Norm":                          ("0",                       "B·S·E",             "0"),
    "Embedding-Mapping":                       ("2·B·S·E·H",               "B·S·E",             "0"),
    "Encoder-{n}-MultiHeadSelfAttention":      ("8·B·S·D·D + 4·B·S·S·D",   "5·B·S·D + A·B·S·S", "0"),
    "Encoder-{n}-MultiHeadSelfAttention-Adapter": ("4·B·S·H·U",            "B·S·H + 2·B·S·U",   "0"),
    "Encoder-{n}-MultiHeadSelfAttention-Norm": ("0",                       "B·S·H",             "0"),
    "Encoder-{n}-FeedForward":                 ("4·B·S·H·FFD",             "B·S·H + 2·B·S·FFD", "0"),
    "Encoder-{n}-FeedForward-Adapter":         ("4·B·S·H·U",               "B·S·H + 2·B·S·U",   "0"),
    "Encoder-{n}-FeedForward-Norm":            ("0",                       "B·S·H",             "0"),
    "MLM-Dense":                               ("2·B·N·H·E",               "B·N·H + B·N·E",     "0"),
    "MLM-Norm":                                ("0",                       "B·N·E",             "0"),
    "MLM-Sim":                                 ("2·B·N·E·T",               "B·N·E",             "B·N·T"),
    "NSP-Dense":                               ("2·B·D·D",                 "2·B·D",             "0"),
    "NSP":                                     ("4·B·D",                   "B·D",               "2·B"),
    "SOP":                                     ("4·B·H",                   "B·H",               "2·B"),
    "Classification":                          ("2·B·H·C",                 "B·H",               "B·C"),
    "Token-Classification":                    ("2·B·S·H·C",               "B·S·H",             "B·S·C"),
    "Question-Answering":                      ("4·B·S·H",                 "B·S·H",             "2·B·S"),
    "Multiple-Choice":                         ("2·B·H",                   "B·H",               "B"),
}  # fmt: skip

STEPS = tuple(Step(*row, *WORK.get(row[3], ("0", "0", "0"))) for row in PARAMETERS)

# The layers of a head.
LAYERS_OF_HEAD = {
    "pooler": ("NSP-Dense",),
    "mlm": ("MLM-Dense", "MLM-Norm", "MLM-Sim"),
    "nsp": ("NSP",),
    "sop": ("SOP",),
    "classification": ("Classification",),
    "token_classification": ("Token-Classification", "Token-Classification-CRF"),
    "question_answering": ("Question-Answering",),
    "multiple_choice": ("Multiple-Choice",),
}


def steps_of(config, heads):
    """The steps of a model, in the order of the article.

    Args:
        config: a `BertConfig`.
        heads: names of heads, a selection of `config.HEADS`.

    Raises:
        ValueError: there is no such head, or one of classes without labels.
    """
    unknown = [head for head in heads if head not in HEADS]
    if isinstance(heads, str) or unknown:
        raise ValueError(f"heads must be a list of some of {', '.join(HEADS)}; got {heads!r}.")
    if not config.labels and any(head.endswith("classification") for head in heads):
        raise ValueError("a head of classes must have labels in the config; there are none.")
    there = {layer for head in heads for layer in LAYERS_OF_HEAD[head]}
    if any(head in ON_POOLER for head in heads):
        there.add("NSP-Dense")
    absent = {
        "Embedding-Segment": not config.type_vocab_size,
        "Embedding-Task": not config.num_tasks,
        "Embedding-Mapping": config.embedding_size is None,
    }
    absent |= {step.layer: not config.adapter_size for step in STEPS if step.name == "Adapter"}
    if not config.num_hidden_layers:
        absent |= {step.layer: True for step in STEPS if step.part == BLOCK}
    if not config.crf:
        there.discard("Token-Classification-CRF")
    return [
        _of_config(step, config) for step in STEPS if (step.layer in there if step.part == HEAD else not absent.get(step.layer))
    ]


def _of_config(step, config):
    """A step in the article's own letters: H for E where the tables are as wide as the rest, and the rows of the segment table."""
    spelling = [("{segments}", str(config.type_vocab_size)), *([("E", "H")] if config.embedding_size is None else [])]
    formulas = {}
    for name in ("params", "flops", "kept", "kept_float32"):
        formulas[name] = getattr(step, name)
        for old, new in spelling:
            formulas[name] = formulas[name].replace(old, new)
    layer = step.layer if config.type_vocab_size else step.layer.replace(", Input-Segment", "")
    return replace(step, layer=layer, **formulas)
