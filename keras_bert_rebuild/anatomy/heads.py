"""The heads as data: their inputs, the layers up to their logits, and their parts."""

from dataclasses import dataclass, replace

from keras_bert_rebuild.anatomy.part import HEAD, MODEL, Part, Weight

# The layer after the logits of the head "token_classification" if it has a conditional random field.
CRF = "Token-Classification-CRF"

# BERT's pooler under keras_bert's name, and the layers of the pooled first token.
POOLER = "NSP-Dense"
POOLED = ("Extract", POOLER)

# The mean over the tokens of a text and its last token, where a head reads one of these and not the first token.
MEAN, LAST = "Mean", "Last"

# The first token that is not padding.
FIRST_TOKEN = "Extract-First-Token"

# The transform of the MLM head.
TRANSFORM = ("MLM-Dense", "MLM-Norm")


def _dense(units, spelling=None, width="H"):
    """Weights of a dense layer on vectors of the model, and the article's formula for their number."""
    return (Weight("kernel", (width, units)), Weight("bias", (units,))), spelling


def _last(layer, name, units, spelling, operations, kept, kept_float32, article=None, width="H"):
    weights, spelling = _dense(units, spelling, width)
    return Part(article, HEAD, name, layer, weights, spelling, operations, kept, kept_float32)


@dataclass(frozen=True)
class Head:
    """A head of a model."""

    layer: str
    """Name of the output, and of the layer that shows that a model has the head."""

    parts: tuple
    """Its `Part`s, except for the pooler, which heads share."""

    reads: tuple = ()
    """The layers between the last block and the logits; a model has no dropout layers for rate 0."""

    units: str = ""
    """Outputs of its last layer: a number, or "C" for the classes."""

    softmax: bool = False
    """Whether it returns probabilities."""

    @property
    def pooled(self) -> bool:
        """Whether its input is the pooled first token."""
        return POOLER in self.reads or self.layer == POOLER

    @property
    def of_text(self) -> bool:
        """Whether it has one answer for a text, and not one for each token."""
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

# Heads whose input is the pooled first token.
ON_POOLER = tuple(name for name, head in HEADS.items() if head.pooled)


def heads_with_dropout_before_pooler():
    """Heads of which "classification" drops before and after the dense layer on the first token, as RoBERTa's and ELECTRA's.

    Returns:
        A dictionary as `HEADS`.
    """
    first, *others = HEADS["classification"].reads
    return {**HEADS, "classification": replace(HEADS["classification"], reads=(first, f"{first}-Dropout", *others))}


def heads_through_transform(pooling):
    """Heads whose vectors all go through the transform of the MLM head, as those of ModernBERT.

    Args:
        pooling: "cls" for heads for whole texts that read the first token, of which multiple choice skips padding on the left,
            "mean" for the mean over the tokens.

    Returns:
        A dictionary as `HEADS`.
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
    """Heads whose pooler reads the last token of a text, and whose MLM head has no transform, as those of XLNet; as `HEADS`."""
    changed = {name: replace(head, reads=(LAST, *head.reads[1:])) for name, head in HEADS.items() if head.reads[:1] == ("Extract",)}
    return {**HEADS, **changed, "mlm": replace(HEADS["mlm"], parts=MLM_PARTS[2:], reads=())}
