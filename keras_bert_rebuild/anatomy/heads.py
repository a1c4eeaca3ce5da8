"""The heads as data: their inputs, the layers up to the logits, and the parts."""

from dataclasses import dataclass, replace

from keras_bert_rebuild.anatomy.part import HEAD, MODEL, Part, Weight

# The layer after the logits of "token_classification" in a model with a conditional random field.
CRF = "Token-Classification-CRF"

# BERT's pooler under its name in keras_bert, and the layers that pool the first token.
POOLER = "NSP-Dense"
POOLED = ("Extract", POOLER)

# For heads that read the mean over the tokens of a text, or its last token, instead of the first.
MEAN, LAST = "Mean", "Last"

# The first token that is not padding, for texts padded on the left.
FIRST_TOKEN = "Extract-First-Token"

# The transform of the MLM head.
TRANSFORM = ("MLM-Dense", "MLM-Norm")


def _dense(units, spelling=None, width="H"):
    """Weights of a dense layer that reads hidden states, and the article's formula for their number."""
    return (Weight("kernel", (width, units)), Weight("bias", (units,))), spelling


def _last(layer, name, units, spelling, operations, kept, kept_float32, article=None, width="H"):
    weights, spelling = _dense(units, spelling, width)
    return Part(article, HEAD, name, layer, weights, spelling, operations, kept, kept_float32)


@dataclass(frozen=True)
class Head:
    """A head of a model."""

    layer: str
    """Name of the output and of the layer by which a model is recognised as having the head."""

    parts: tuple
    """Its `Part`s without the pooler, which heads share."""

    reads: tuple = ()
    """The layers between the last block and the logits; dropout layers are absent if the rate is 0."""

    units: str = ""
    """Number of logits: a number, or "C" for the number of classes."""

    softmax: bool = False
    """Whether the output is probabilities."""

    @property
    def pooled(self) -> bool:
        """Whether it reads the pooled first token."""
        return POOLER in self.reads or self.layer == POOLER

    @property
    def is_per_text(self) -> bool:
        """Whether it has one output per text, not one per token."""
        return self.layer == POOLER or self.reads[:1] in (("Extract",), (FIRST_TOKEN,), (MEAN,), (LAST,))


POOLER_PART = Part(
    13,
    HEAD,
    "Pooler",
    POOLER,
    (Weight("kernel", ("D", "D")), Weight("bias", ("D",))),
    operations="2·B·D·D",
    kept="2·B·D",
)

MLM_NORM_PART = Part(11, HEAD, "MLM normalisation", "MLM-Norm", (Weight("gamma", ("E",)), Weight("beta", ("E",))), kept="B·N·E")

MLM_PARTS = (
    Part(
        10,
        HEAD,
        "MLM transform",
        "MLM-Dense",
        (Weight("kernel", ("H", "E")), Weight("bias", ("E",))),
        operations="2·B·N·H·E",
        kept="B·N·H + B·N·E",
    ),
    MLM_NORM_PART,
    Part(
        12,
        HEAD,
        "MLM vocabulary",
        "MLM-Sim",
        (Weight("bias", ("T",), ((MODEL,),)),),
        operations="2·B·N·E·T",
        kept="B·N·E",
        kept_float32="B·N·T",
    ),
)

CRF_PART = Part(
    None,
    HEAD,
    "Label transitions",
    CRF,
    (Weight("next", ("C", "C")), Weight("begin", ("C",)), Weight("end", ("C",))),
    spelling="C·C + 2·C",
)

_NSP = _last("NSP", "Next sentence", "2", "2·D + 2", "4·B·D", "B·D", "2·B", article=14, width="D")
_SOP = _last("SOP", "Sentence order", "2", "2·H + 2", "4·B·H", "B·H", "2·B")
_TEXTS = _last("Classification", "Classes of a text", "C", "C·H + C", "2·B·H·C", "B·H", "B·C")
_TOKENS = _last("Token-Classification", "Classes of tokens", "C", "C·H + C", "2·B·S·H·C", "B·S·H", "B·S·C")
_ANSWERS = _last("Question-Answering", "Start and end", "2", "2·H + 2", "4·B·S·H", "B·S·H", "2·B·S")
_REPLACED = (
    Part(
        None,
        HEAD,
        "Replaced token transform",
        "RTD-Dense",
        (Weight("kernel", ("H", "H")), Weight("bias", ("H",))),
        operations="2·B·S·H·H",
        kept="2·B·S·H",
    ),
    _last("RTD", "Replaced token", "1", "H + 1", "2·B·S·H", "B·S·H", "B·S"),
)
_CHOICES = _last("Multiple-Choice", "Score of a choice", "1", "H + 1", "2·B·H", "B·H", "B")

# Name of a head to its `Head`, in the order of a model's outputs.
HEADS = {
    "pooler": Head(POOLER, (), POOLED),
    "mlm": Head("MLM", MLM_PARTS, TRANSFORM, softmax=True),
    "nsp": Head("NSP", (_NSP,), POOLED, "2", softmax=True),
    "sop": Head("SOP", (_SOP,), POOLED, "2", softmax=True),
    "classification": Head("Classification", (_TEXTS,), (*POOLED, "Classification-Dropout"), "C"),
    "token_classification": Head("Token-Classification", (_TOKENS, CRF_PART), ("Token-Classification-Dropout",), "C"),
    "question_answering": Head("Question-Answering", (_ANSWERS,), (), "2"),
    "multiple_choice": Head("Multiple-Choice", (_CHOICES,), (*POOLED, "Multiple-Choice-Dropout"), "1"),
    "rtd": Head("RTD", _REPLACED, ("RTD-Dense",), "1"),
}

# Heads that read the pooled first token.
ON_POOLER = tuple(name for name, head in HEADS.items() if head.pooled)


def heads_with_dropout_before_pooler():
    """Heads in which "classification" has dropout before and after the dense layer on the first token, as in RoBERTa and ELECTRA.

    Returns:
        A dictionary like `HEADS`.
    """
    first, *rest = HEADS["classification"].reads
    return {**HEADS, "classification": replace(HEADS["classification"], reads=(first, f"{first}-Dropout", *rest))}


def heads_through_transform(pooling):
    """Heads that read hidden states after the MLM head's transform, as in ModernBERT.

    Args:
        pooling: "cls" for text heads on the first token (multiple choice takes the first token that is not padding), "mean" for
            text heads on the mean over the tokens.

    Returns:
        A dictionary like `HEADS`.
    """
    changed = {}
    for name in ("classification", "token_classification", "question_answering", "multiple_choice"):
        head = HEADS[name]
        first = MEAN if pooling == "mean" else FIRST_TOKEN if name == "multiple_choice" else "Extract"
        start, rows = ((first,), "B") if head.pooled else ((), "B·S")
        dense = replace(MLM_PARTS[0], operations=f"2·{rows}·H·E", kept=f"{rows}·H + {rows}·E")
        parts = (dense, replace(MLM_NORM_PART, kept=f"{rows}·E"), *head.parts)
        changed[name] = replace(head, parts=parts, reads=(*start, *TRANSFORM, f"{head.layer}-Dropout"))
    return {**HEADS, **changed}


def heads_at_last_token():
    """Heads whose pooler reads the last token of a text, and whose MLM head has no transform, as in XLNet; like `HEADS`."""
    changed = {name: replace(head, reads=(LAST, *head.reads[1:])) for name, head in HEADS.items() if head.reads[:1] == ("Extract",)}
    return {**HEADS, **changed, "mlm": replace(HEADS["mlm"], parts=MLM_PARTS[2:], reads=())}


# The random numbers that a batch has for sampling tokens are integers of this many bits, which float32 represents exactly.
DRAW_BITS = 24
