"""The texts that int8 is calibrated on."""

import random

# Texts for calibration; every second one is short, since vectors of short texts lose most.
COUNT = 300
SHORT_TOKENS = 12


def calibration_texts(texts, of_task):
    """Texts as the model sees them: with the prompt of the task, or pairs of a query and a text for a reranker.

    Args:
        texts: a list of texts; for a reranker a query, a tab and a text each.
        of_task: the settings of a task in export.json.

    Raises:
        ValueError: a text for a reranker is not a pair.
    """
    if of_task.get("kind") != "reranking":
        return [of_task.get("prompt", "") + text for text in texts]
    lines = [text for text in texts if text.strip()]
    wrong = next((line for line in lines if line.count("\t") != 1), None)
    if wrong is not None:
        raise ValueError(f"calibration of a reranker needs a query, a tab and a text on every line; got {wrong!r:.80}.")
    return [tuple(line.split("\t")) for line in lines]


def calibration_rows(tokenizer, texts, max_len, count=COUNT, seed=0):
    """Rows of ids for calibration, each of its own length.

    Args:
        tokenizer: that of the model.
        texts: texts, or pairs of texts, as the model will see them, a list.
        max_len: maximum tokens of a row.
        count: rows to return: half of them from any text, half with at most `SHORT_TOKENS` tokens; if there are not enough short
            texts, longer ones are cut. Pairs of texts are taken as they are.
        seed: of the random choice.

    Returns:
        An `Encoding` whose fields are lists of arrays.

    Raises:
        ValueError: there are fewer than two texts.
    """
    texts = [text for text in texts if not isinstance(text, str) or text.strip()]
    if len(texts) < 2:
        raise ValueError(f"calibration needs some hundred texts as the model will see them; got {len(texts)}.")
    draw = random.Random(seed)
    chosen = draw.sample(texts, min(len(texts), 20 * count))
    if not isinstance(texts[0], str):
        return tokenizer.encode_batch(*zip(*chosen[:count], strict=True), max_len=max_len)
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
