"""The texts that int8 quantisation is calibrated on."""

import random

# Number of texts; every second one is short, since vectors of short texts lose most.
COUNT = 300
SHORT_TOKENS = 12


def calibration_texts(texts, of_task):
    """Texts in the form in which the model sees them: with the prompt of the task, or as pairs of a query and a text.

    Args:
        texts: a list of texts; for a reranker, of a query, a tab and a text each.
        of_task: the settings of the task in export.json.

    Raises:
        ValueError: a line for a reranker is not such a pair.
    """
    if of_task.get("kind") != "reranking":
        return [of_task.get("prompt", "") + text for text in texts]
    lines = [text for text in texts if text.strip()]
    wrong = next((line for line in lines if line.count("\t") != 1), None)
    if wrong is not None:
        raise ValueError(f"calibration of a reranker needs a query, a tab and a text on every line; got {wrong!r:.80}.")
    return [tuple(line.split("\t")) for line in lines]


def calibration_rows(tokenizer, texts, max_len, count=COUNT, seed=0):
    """Unpadded rows of ids for calibration.

    Args:
        tokenizer: the tokenizer of the model.
        texts: a list of texts, or pairs of texts, representative of the model's inputs.
        max_len: maximum number of tokens of a row.
        count: number of rows: half from any text, half with at most `SHORT_TOKENS` tokens; if there are too few short texts, longer
            ones are truncated. Pairs of texts are used as they are.
        seed: seed of the random sample.

    Returns:
        An `Encoding` whose fields are lists of arrays.

    Raises:
        ValueError: there are fewer than two texts.
    """
    texts = [text for text in texts if not isinstance(text, str) or text.strip()]
    if len(texts) < 2:
        raise ValueError(f"calibration needs some hundred texts like those the model will see; got {len(texts)}.")
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
