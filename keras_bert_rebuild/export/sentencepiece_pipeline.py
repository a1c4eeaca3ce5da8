"""A SentencePiece model as a pipeline of the package tokenizers, for programs without sentencepiece."""

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import Unigram

from keras_bert_rebuild.files.varint import read_varint
from keras_bert_rebuild.text.albert_normalization import QUOTES

# Fields of SentencePiece's files, by the numbers in sentencepiece_model.proto of google/sentencepiece.
TRAINER, NORMALIZER = 2, 3
MODEL_TYPE, UNIGRAM = 3, 1
CHARSMAP, DUMMY_PREFIX, EXTRA_SPACES = 2, 3, 4


def sentencepiece_pipeline(tokenizer):
    """The pipeline that splits texts like a `SentencePieceTokenizer`, except for ALBERT's commas after digits.

    Special tokens in a text are read as such.

    Args:
        tokenizer: a `SentencePieceTokenizer`.

    Returns:
        A `tokenizers.Tokenizer`, or None for other models than ALBERT's and XLM-RoBERTa's: those of byte pairs, and those that
        keep spaces as they are.
    """
    fields = _fields(tokenizer.model_file)
    trainer, cleaning = (_fields(fields.get(number, b"")) for number in (TRAINER, NORMALIZER))
    if trainer.get(MODEL_TYPE, UNIGRAM) != UNIGRAM or not (cleaning.get(DUMMY_PREFIX, 1) and cleaning.get(EXTRA_SPACES, 1)):
        return None
    scores = tokenizer.scores
    first_added = min((tokenizer.vocabulary[token] for token in tokenizer.added_tokens), default=len(tokenizer.vocabulary))
    pipeline = Tokenizer(
        Unigram([(tokenizer.tokens[i], scores.get(tokenizer.tokens[i], 0.0)) for i in range(first_added)], tokenizer.unk_id)
    )
    pipeline.normalizer = normalizers.Sequence([*_cleaning(tokenizer), *_charsmap(cleaning.get(CHARSMAP))])
    pipeline.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    pipeline.decoder = decoders.Metaspace()
    cls, sep = (tokenizer.tokens[i] for i in (tokenizer.cls_id, tokenizer.sep_id))
    second = tokenizer.second_segment
    pipeline.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {' '.join([sep] * tokenizer.separators)} $B:{second} {sep}:{second}",
        special_tokens=[(cls, tokenizer.cls_id), (sep, tokenizer.sep_id)],
    )
    special = (tokenizer.tokens[i] for i in sorted(tokenizer.special_ids))
    pipeline.add_special_tokens([AddedToken(token, lstrip=token in tokenizer.takes_space, normalized=False) for token in special])
    pipeline.add_tokens(list(tokenizer.rules.values()))
    return pipeline


def _cleaning(tokenizer):
    """ALBERT's steps before SentencePiece sees a text."""
    if tokenizer.family != "albert":
        return []
    steps = [normalizers.Reoffset(mark, '"') for mark in QUOTES]
    steps += [normalizers.NFKD(), normalizers.StripAccents()] if tokenizer.strip_accents else []
    return [*steps, *([normalizers.Lowercase()] if tokenizer.lower else [])]


def _charsmap(content):
    return [normalizers.Precompiled(content)] if content else []


def _fields(content):
    """The fields of a protocol buffer by number: integers, or bytes for fields with a length; of repeated fields the last.

    Reference: https://protobuf.dev/programming-guides/encoding/.
    """
    fields, offset = {}, 0
    while offset < len(content):
        key, offset = read_varint(content, offset)
        number, kind = key >> 3, key & 7
        if kind == 0:
            fields[number], offset = read_varint(content, offset)
        elif kind == 2:
            size, offset = read_varint(content, offset)
            fields[number], offset = content[offset : offset + size], offset + size
        else:
            offset += {1: 8, 5: 4}[kind]
    return fields
