"""Tokenizers of every kind with settings that differ from their files, with a small encoder for each."""

import importlib.util
import json

from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

from helpers import small_tokenizers
from helpers.small_tasks import VOCABULARY, small_encoder
from keras_bert_rebuild import WordPieceTokenizer
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer
from keras_bert_rebuild.text.pipeline_tokenizer import PipelineTokenizer
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer

ROBERTA = {"family": "roberta", "position_offset": 2, "pad_token_id": 1, "type_vocab_size": 1, "mlm_act": "gelu_erf"}
ALBERT = {"family": "albert", "embedding_size": 8, "num_hidden_groups": 1}
TEXTS = ["The cat SAT on the mat, Naïve café!", "C++ [E1]dog", "", "anna-ben 20"]


def wordpiece(folder):
    rules = [AddedToken("C++", single_word=True), AddedToken("[E1]", special=True)]
    vocabulary = [*VOCABULARY, "C++", "[E1]"]
    cleaning = {"strip_accents": False, "tokenize_chinese_chars": False}
    return WordPieceTokenizer(vocabulary, False, rules, **cleaning, second_segment=0, truncation_side="left"), {}


def byte_level_bpe(folder):
    small_tokenizers.byte_level_bpe(folder)
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    rules = {"add_prefix_space": True, "mask_takes_space": False, "truncation_side": "left"}
    return ByteLevelBPETokenizer(vocabulary, merges, **rules), ROBERTA


def albert(folder):
    file = small_tokenizers.sentencepiece("albert", small_tokenizers.SENTENCES)
    cleaning = {"lower": False, "strip_accents": False}
    return SentencePieceTokenizer(file, "albert", **cleaning, second_segment=0, truncation_side="left"), ALBERT


def xlm_roberta(folder):
    tokenizer = SentencePieceTokenizer(small_tokenizers.sentencepiece("xlm_roberta"), "xlm_roberta")
    return SentencePieceTokenizer(tokenizer.model_file, "xlm_roberta", added_tokens={"C++": len(tokenizer)}), ROBERTA


def pipeline(folder):
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate([*VOCABULARY, "anna-ben"])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_tokens([AddedToken("C++", single_word=True)])
    return PipelineTokenizer(json.loads(tokenizer.to_str()), second_segment=0, truncation_side="left"), {}


KINDS = [wordpiece, byte_level_bpe, pipeline]
if importlib.util.find_spec("sentencepiece"):
    KINDS += [albert, xlm_roberta]


def given(kind, folder, heads=("pooler",)):
    """A tokenizer, and an encoder for it that has no tokenizer of its own."""
    tokenizer, family = kind(folder)
    return tokenizer, small_encoder(heads, vocab_size=max(tokenizer.tokens) + 1, **family)
