"""The words that a pretraining model puts in place of `[MASK]`."""

import numpy as np

from keras_bert_rebuild.text.normalization import split_words
from keras_bert_rebuild.text.tokens import TOKEN_CLS, TOKEN_MASK, TOKEN_SEP, TOKEN_UNK
from keras_bert_rebuild.text.wordpiece import split_pieces


def fill_mask(model, token_dict, text, top_k=5, cased=False):
    """Predict the masked tokens of a text.

    Args:
        model: as from `get_model(training=True)`.
        token_dict: its vocabulary, token to id.
        text: a text with `[MASK]` in place of one or more tokens.
        top_k: answers for each.
        cased: keep case and accents.

    Returns:
        For every `[MASK]`, in order, a list of `(token, probability)`, the most probable first.

    Raises:
        ValueError: the text is not a string, has no `[MASK]` or is longer than the model.
    """
    if not isinstance(text, str) or TOKEN_MASK not in text:
        raise ValueError(f"text must be a string with at least one {TOKEN_MASK}; got {text!r:.80}.")
    tokens = [TOKEN_CLS]
    for i, part in enumerate(text.split(TOKEN_MASK)):
        tokens += [TOKEN_MASK] * (i > 0)
        tokens += [piece for word in split_words(part, cased) for piece in split_pieces(word, token_dict)]
    tokens.append(TOKEN_SEP)
    length = model.inputs[0].shape[1] or len(tokens)
    if len(tokens) > length:
        raise ValueError(f"text must be at most {length} tokens long, as the model is; got {len(tokens)}.")
    ids = np.zeros((1, length), "int32")
    ids[0, : len(tokens)] = [token_dict.get(token, token_dict[TOKEN_UNK]) for token in tokens]
    places = [i for i, token in enumerate(tokens) if token == TOKEN_MASK]
    chosen = np.zeros_like(ids)
    chosen[0, places] = 1
    probabilities = np.asarray(model.predict([ids, np.zeros_like(ids), chosen], verbose=0)[0])[0]
    names = {i: token for token, i in token_dict.items()}
    best = np.argsort(-probabilities[places], axis=-1)[:, :top_k]
    return [[(names[i], float(probabilities[place, i])) for i in row] for place, row in zip(places, best, strict=True)]
