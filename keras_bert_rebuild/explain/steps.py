"""The steps of a model: the parts of its encoder and of its heads, checked."""

from keras_bert_rebuild.anatomy.parts import parts_of
from keras_bert_rebuild.config import check_heads


def steps_of(config, heads):
    """The steps of a model, in the order of the article.

    Args:
        config: a `BertConfig`.
        heads: names of heads, from `config.HEADS`.

    Returns:
        Triples, see `parts_of`.

    Raises:
        ValueError: a head does not exist, or a classification head has no labels.
    """
    check_steps(config, heads)
    return parts_of(config.encoder(), heads)


def check_steps(config, heads):
    """Refuse the heads that `steps_of` refuses."""
    check_heads(heads)
    if not config.labels and any(head.endswith("classification") for head in heads):
        raise ValueError("a classification head must have labels in the config; it has none.")
