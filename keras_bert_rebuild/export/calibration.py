"""The texts from which quantisation learns the range of usual values."""

import random

# Texts for calibration; every second one is short, since vectors of short texts lose most.
COUNT = 300
SHORT_TOKENS = 12


def calibration_rows(tokenizer, texts, max_len, count=COUNT, seed=0):
    """Rows of ids for calibration, each of its own length.

    Args:
        tokenizer: that of the model.
        texts: texts as the model will see them, a list.
        max_len: maximum tokens of a row.
        count: rows to return: half of them from any text, half with at most `SHORT_TOKENS` tokens; if there are not enough short
            texts, longer ones are cut.
        seed: of the random choice.

    Returns:
        An `Encoding` whose fields are lists of arrays.

    Raises:
        ValueError: there are fewer than two texts.
    """
    texts = [text for text in texts if text.strip()]
    if len(texts) < 2:
        raise ValueError(f"calibration needs some hundred texts as the model will see them; got {len(texts)}.")
    draw = random.Random(seed)
    chosen = draw.sample(texts, min(len(texts), 20 * count))
    usual, others = chosen[: count // 2], chosen[count // 2 :] or chosen
    lengths = [len(ids) for ids in tokenizer.encode_batch(others).ids]
    short = [text for text, length in zip(others, lengths, strict=True) if length <= SHORT_TOKENS]
    short = short[: count // 2]
    cut = others[: count // 2 - len(short)]
    rows = tokenizer.encode_batch(usual, max_len=max_len)
    for more in (tokenizer.encode_batch(part, max_len=SHORT_TOKENS) for part in (short, cut) if part):
        rows.ids += more.ids
        rows.segments += more.segments
    return rows
