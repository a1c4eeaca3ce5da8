"""A SentencePiece model as a pipeline of the package tokenizers, for programs that have no sentencepiece."""

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

from keras_bert_rebuild.files.varint import read_varint
from keras_bert_rebuild.text.albert_normalization import QUOTES

# Fields of SentencePiece's files, by the numbers in sentencepiece_model.proto of google/sentencepiece.
TRAINER, NORMALIZER = 2, 3
MODEL_TYPE, UNIGRAM = 3, 1
CHARSMAP, DUMMY_PREFIX, EXTRA_SPACES = 2, 3, 4


def sentencepiece_pipeline(tokenizer):
    """The pipeline that cuts texts as a `SentencePieceTokenizer` does, but for ALBERT's commas behind digits.

    Special tokens that are written in a text are these tokens.

    Args:
        tokenizer: a `SentencePieceTokenizer`.

    Returns:
        A `tokenizers.Tokenizer`, or None for a model of another kind than ALBERT's and XLM-RoBERTa's: of byte pairs, or one that
        keeps spaces as they are.
    """
    fields = _fields(tokenizer.model_file)
    trainer, cleaning = (_fields(fields.get(number, b"")) for number in (TRAINER, NORMALIZER))
    if trainer.get(MODEL_TYPE, UNIGRAM) != UNIGRAM or not (cleaning.get(DUMMY_PREFIX, 1) and cleaning.get(EXTRA_SPACES, 1)):
        return None
    scores = tokenizer.scores
    behind = min((tokenizer.vocabulary[token] for token in tokenizer.added_tokens), default=len(tokenizer.vocabulary))
    words = Tokenizer(
        Unigram([(tokenizer.tokens[i], scores.get(tokenizer.tokens[i], 0.0)) for i in range(behind)], tokenizer.unk_id)
    )
    words.normalizer = normalizers.Sequence([*_cleaning(tokenizer), *_charsmap(cleaning.get(CHARSMAP))])
    words.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    words.decoder = decoders.Metaspace()
    cls, sep = (tokenizer.tokens[i] for i in (tokenizer.cls_id, tokenizer.sep_id))
    second = tokenizer.second_segment
    words.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {' '.join([sep] * tokenizer.separators)} $B:{second} {sep}:{second}",
        special_tokens=[(cls, tokenizer.cls_id), (sep, tokenizer.sep_id)],
    )
    special = (tokenizer.tokens[i] for i in sorted(tokenizer.special_ids))
    words.add_special_tokens([AddedToken(token, lstrip=token in tokenizer.takes_space, normalized=False) for token in special])
    words.add_tokens(list(tokenizer.rules.values()))
    return words


def _cleaning(tokenizer):
    """ALBERT's steps before SentencePiece sees a text."""
    if tokenizer.family != "albert":
        return []
    steps = [normalizers.Replace(mark, '"') for mark in QUOTES]
    steps += [normalizers.NFKD(), normalizers.StripAccents()] if tokenizer.strip_accents else []
    return [*steps, *([normalizers.Lowercase()] if tokenizer.lower else [])]


def _charsmap(content):
    return [normalizers.Precompiled(content)] if content else []


def _fields(content):
    """The fields of a protocol buffer by their numbers: numbers, and bytes for all that has a length; of several the last.

    Reference: https://protobuf.dev/programming-guides/encoding/.
    """
    fields, place = {}, 0
    while place < len(content):
        key, place = read_varint(content, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            fields[number], place = read_varint(content, place)
        elif kind == 2:
            size, place = read_varint(content, place)
            fields[number], place = content[place : place + size], place + size
        else:
            place += {1: 8, 5: 4}[kind]
    return fields
