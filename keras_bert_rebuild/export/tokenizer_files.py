"""Tokenizer files in an exported folder, for this library and for the package tokenizers."""

import json

from tokenizers import AddedToken, Tokenizer, decoders, normalizers, pre_tokenizers, processors
from tokenizers.models import BPE, Unigram, WordPiece

from keras_bert_rebuild.checkpoints.leveldb_table import fields_of
from keras_bert_rebuild.pretrained.tokenizer_files import tokenizer_of_files, vocabulary_files
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer
from keras_bert_rebuild.text.encoding import CLS_SEGMENT
from keras_bert_rebuild.text.piece_table import MAX_WORD_CHARACTERS
from keras_bert_rebuild.text.pipeline_tokenizer import PipelineTokenizer
from keras_bert_rebuild.text.sentencepiece_text import QUOTES
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_bert_rebuild.text.tokenizer_json import OneSentence
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer

# Field numbers of SentencePiece files, from sentencepiece_model.proto of google/sentencepiece.
TRAINER, NORMALIZER = 2, 3
MODEL_TYPE, UNIGRAM = 3, 1
CHARSMAP, DUMMY_PREFIX, EXTRA_SPACES = 2, 3, 4


def sentencepiece_pipeline(tokenizer):
    """A pipeline that tokenises like a `SentencePieceTokenizer`, except for ALBERT's commas after digits.

    Special tokens written in a text are recognised.

    Args:
        tokenizer: a `SentencePieceTokenizer`.

    Returns:
        A `tokenizers.Tokenizer`, or None for models it cannot represent: BPE models, and those that retain the spaces of a text.
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
    pipeline.post_processor = _rows(tokenizer)
    special = (tokenizer.tokens[i] for i in sorted(tokenizer.special_ids))
    pipeline.add_special_tokens([AddedToken(token, lstrip=token in tokenizer.takes_space, normalized=False) for token in special])
    pipeline.add_tokens(list(tokenizer.rules.values()))
    return pipeline


def _rows(tokenizer):
    """The special tokens and segments of rows, a `tokenizers.processors.TemplateProcessing`."""
    cls, sep = (tokenizer.tokens[i] for i in (tokenizer.cls_id, tokenizer.sep_id))
    second = tokenizer.second_segment
    single, pair = f"{cls} $A {sep}", f"{cls} $A {' '.join([sep] * tokenizer.separators)} $B:{second} {sep}:{second}"
    if tokenizer.cls_last:
        last = CLS_SEGMENT if second else 0
        single, pair = f"$A {sep} {cls}:{last}", f"$A {sep} $B:{second} {sep}:{second} {cls}:{last}"
    ids = [(cls, tokenizer.cls_id), (sep, tokenizer.sep_id)]
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=ids)


def _cleaning(tokenizer):
    """The normalisation of ALBERT and XLNet before SentencePiece."""
    if tokenizer.family not in ("albert", "xlnet"):
        return []
    steps = [normalizers.Replace(mark, '"') for mark in QUOTES]
    steps += [normalizers.NFKD(), normalizers.StripAccents()] if tokenizer.strip_accents else []
    return [*steps, *([normalizers.Lowercase()] if tokenizer.lower else [])]


def _charsmap(content):
    return [normalizers.Precompiled(content)] if content else []


def _fields(content):
    """The fields of a protocol buffer by number: integers, or bytes; the last value of repeated ones."""
    return {number: values[-1] for number, values in fields_of(content).items()}


def tokenizer_files_outside(model, tokenizer, max_len):
    """File name to bytes: the files for `load_tokenizer`, and a tokenizer.json that truncates texts to `max_len` and pads them.

    For SentencePiece it is the tokenizer.json that was loaded with the model, if it belongs to this tokenizer, or one made from the
    model.
    """
    with OneSentence("the files of a tokenizer"):
        return _files_outside(model, tokenizer, max_len)


def _files_outside(model, tokenizer, max_len):
    files = vocabulary_files(tokenizer, max_len)
    kind = next((kind for kind in _PIPELINES if isinstance(tokenizer, kind)), None)
    pipeline = None if kind is None else _PIPELINES[kind](tokenizer)
    if isinstance(tokenizer, SentencePieceTokenizer):
        pipeline = _loaded_pipeline(model, tokenizer) or sentencepiece_pipeline(tokenizer)
    if pipeline is None:
        return files
    pipeline.enable_truncation(max_len, direction=tokenizer.truncation_side)
    side = "left" if tokenizer.cls_last else "right"
    pipeline.enable_padding(direction=side, pad_id=tokenizer.pad_id, pad_token=tokenizer.tokens[tokenizer.pad_id])
    return files | {"tokenizer.json": pipeline.to_str().encode()}


def _wordpiece(tokenizer):
    """The pipeline for plain texts, in which a written `[MASK]` is text."""
    unknown = tokenizer.tokens[tokenizer.unk_id]
    cleaned = tokenizer.settings
    pieces = tokenizer.pieces if len(tokenizer.pieces) == max(tokenizer.pieces.values()) + 1 else tokenizer.vocabulary
    words = Tokenizer(WordPiece(pieces, unk_token=unknown, max_input_chars_per_word=MAX_WORD_CHARACTERS))
    words.normalizer = normalizers.BertNormalizer(
        True, cleaned.tokenize_chinese_chars, cleaned.strip_accents, cleaned.do_lower_case
    )
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words.decoder = decoders.WordPiece()
    words.post_processor = _rows(tokenizer)
    words.add_tokens(list(tokenizer.rules.values()))
    return words


def _byte_level_bpe(tokenizer):
    words = Tokenizer(BPE(tokenizer.vocabulary, tokenizer.merges, unk_token=tokenizer.tokens[tokenizer.unk_id]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=tokenizer.add_prefix_space)
    words.decoder = decoders.ByteLevel()
    sep, cls = ((tokenizer.tokens[i], i) for i in (tokenizer.sep_id, tokenizer.cls_id))
    words.post_processor = processors.RobertaProcessing(sep, cls, True, tokenizer.add_prefix_space)
    words.add_tokens(list(tokenizer.rules.values()))
    return words


def _pipeline(tokenizer):
    pipeline = Tokenizer.from_str(json.dumps(tokenizer.pipeline))
    if not tokenizer.second_segment:  # the file may give the second text another segment
        pipeline.post_processor = _rows(tokenizer)
    return pipeline


_PIPELINES = {WordPieceTokenizer: _wordpiece, ByteLevelBPETokenizer: _byte_level_bpe, PipelineTokenizer: _pipeline}


def _loaded_pipeline(model, tokenizer):
    """The tokenizer.json that was loaded with a model, if it belongs to this tokenizer; else None."""
    report = getattr(model, "load_report", None)
    files = report.tokenizer_files if report else {}
    if "tokenizer.json" not in files or tokenizer_of_files(files, {"model_type": model.config.family}) != tokenizer:
        return None
    return Tokenizer.from_str(files["tokenizer.json"].decode())
