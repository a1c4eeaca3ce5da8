"""The tokenizer's files beside an exported model: for this library, and for the package tokenizers."""

from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.models import WordPiece

from keras_bert_rebuild.pretrained.tokenizer_files import vocabulary_files
from keras_bert_rebuild.text.longest_match import MAX_WORD_CHARACTERS
from keras_bert_rebuild.text.wordpiece_tokenizer import WordPieceTokenizer


def tokenizer_files_outside(model, tokenizer, max_len):
    """Name to bytes: vocab.txt, its settings and a tokenizer.json that cuts texts to `max_len`.

    For tokenizers of other kinds it is the files that came with the model.
    """
    if not isinstance(tokenizer, WordPieceTokenizer):
        report = getattr(model, "load_report", None)
        return dict(report.tokenizer_files) if report else {}
    return vocabulary_files(tokenizer, max_len) | {"tokenizer.json": _json(tokenizer, max_len).encode()}


def _json(tokenizer, max_len):
    """tokenizer.json for texts as they are: a `[MASK]` that is written in one is text."""
    unknown, cls, sep = (tokenizer.tokens[i] for i in (tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id))
    words = Tokenizer(WordPiece(tokenizer.vocabulary, unk_token=unknown, max_input_chars_per_word=MAX_WORD_CHARACTERS))
    words.normalizer = normalizers.BertNormalizer(lowercase=not tokenizer.cased)
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words.post_processor = processors.BertProcessing((sep, tokenizer.sep_id), (cls, tokenizer.cls_id))
    words.add_tokens([AddedToken(token, normalized=tokenizer.any_case) for token in tokenizer.added_tokens])
    words.enable_truncation(max_len)
    words.enable_padding(pad_id=tokenizer.pad_id, pad_token=tokenizer.tokens[tokenizer.pad_id])
    return words.to_str()
