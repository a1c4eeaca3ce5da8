"""Learning a WordPiece vocabulary, deterministically."""

from collections import Counter

from keras_bert_rebuild.text.vocabulary import GOOGLE_PAD, TOKEN_CLS, TOKEN_MASK, TOKEN_SEP, TOKEN_UNK

# Google's ids: [PAD] is 0, then 99 unused rows for words of the user, and 100 to 103.
SPECIAL_TOKENS = (GOOGLE_PAD, *(f"[unused{i}]" for i in range(99)), TOKEN_UNK, TOKEN_CLS, TOKEN_SEP, TOKEN_MASK)

WORD_START = "▁"

_WORDS_PER_LINE = 10_000


def train_vocabulary(words, size, max_characters=1000):
    """Learn the pieces of a vocabulary from words.

    The pieces are those of byte-pair encoding over words with a mark at their start; a marked piece becomes a piece that starts a
    word, any other one a `##` piece. The WordPiece trainer of `tokenizers` is not deterministic; this one is.

    Args:
        words: an iterable of words, as from `split_words`, or a mapping from word to count.
        size: number of tokens in the vocabulary, special ones included.
        max_characters: number of the most frequent characters that get pieces of their own; the rest are unknown.

    Returns:
        The tokens in the order of their ids: special tokens with Google's ids, characters, pieces by rank.

    Raises:
        ValueError: there are no words, or the size is too small for the special tokens and the characters.

    Reference: Sennrich et al., 2016, section 3.2 (https://arxiv.org/abs/1508.07909).
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    counts = Counter(words)
    if not counts:
        raise ValueError("a vocabulary must be learnt from at least one word; got none: the corpus is empty.")
    characters = Counter()
    for word, count in counts.items():
        for char in word:
            characters[char] += count
    ranked = sorted(characters, key=lambda char: (-characters[char], char))[:max_characters]
    known_characters = set(ranked)
    alphabet = [*sorted(ranked), *(f"##{char}" for char in sorted(ranked))]
    rest = size - len(SPECIAL_TOKENS) - len(alphabet)
    if rest < 0:
        raise ValueError(
            f"size must be at least {size - rest} for {len(SPECIAL_TOKENS)} special tokens and {len(ranked)} letters; got {size}."
        )
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.Metaspace(replacement=WORD_START, prepend_scheme="always")
    # The characters and their marked forms come first; then one merge for every piece.
    trainer = trainers.BpeTrainer(vocab_size=2 * len(ranked) + 1 + rest, min_frequency=2, show_progress=False)
    model.train_from_iterator(
        _lines((word, count) for word, count in sorted(counts.items()) if known_characters.issuperset(word)), trainer
    )
    learnt = sorted(model.get_vocab().items(), key=lambda item: item[1])
    pieces = (piece[1:] if piece.startswith(WORD_START) else f"##{piece}" for piece, _ in learnt)
    known = {*SPECIAL_TOKENS, *alphabet, "", "##"}
    new = [piece for piece in dict.fromkeys(pieces) if piece not in known]
    return [*SPECIAL_TOKENS, *alphabet, *new[:rest]]


def _lines(counts):
    """Lines with every word as often as it was counted, several lines for a frequent word, so that no line is too long."""
    for word, count in counts:
        for done in range(0, count, _WORDS_PER_LINE):
            yield " ".join([word] * min(count - done, _WORDS_PER_LINE))
