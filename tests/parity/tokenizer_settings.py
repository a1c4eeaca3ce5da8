"""Tokenizer settings of documented models, as data: the files of their folders without the vocabulary."""

from collections.abc import Sequence
from typing import Any, NamedTuple

NLP = {"lowercase": True, "strip_accents": None, "handle_chinese_chars": True, "clean_text": True, "type": "BertNormalizer"}
GOOGLE = {"normalizer": NLP, "pre_tokenizer": {"type": "BertPreTokenizer"}}
BERT: dict[str, Any] = {"model_type": "bert"}
NOTHING: dict[str, Any] = {}
GENERIC = {"tokenizer_class": "PreTrainedTokenizerFast"}
SPECIAL = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
SPLIT = {"type": "WhitespaceSplit"}
DIGITS = {"type": "Sequence", "pretokenizers": [SPLIT, {"type": "Digits", "individual_digits": True}]}
NFKC_LOWER = {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}]}

MASK = {"mask_token": {
    "__type": "AddedToken", "content": "<mask>", "lstrip": True, "normalized": False, "rstrip": False, "single_word": False,
}}  # fmt: skip


LOWER, CASED = {"do_lower_case": True}, {"do_lower_case": False}
ACCENTS, NO_ACCENTS = {"strip_accents": False}, {"strip_accents": True}
CJK_IN_WORDS = {"tokenize_chinese_chars": False}
TYPES = {
    name: {"model_type": name}
    for name in ("bert", "electra", "distilbert", "mpnet", "roberta", "albert", "xlm-roberta", "camembert")
}


def of(name):
    return {"tokenizer_class": f"{name}Tokenizer"}


def markers(**flags):
    return [{"content": content, **flags} for content in ("[E1]", "[/E1]", "foo", "C++")]


class Settings(NamedTuple):
    name: str
    """The model, or what it has."""

    files: str
    """What the vocabulary lies in: "vocab.txt", "tokenizer.json" (WordPiece), both with a "+", or the name of another model."""

    tokenizer_config: dict[str, Any] | None = None

    config: dict[str, Any] = BERT

    pipeline: dict[str, Any] = GOOGLE
    """Parts of tokenizer.json."""

    special_tokens_map: dict[str, Any] | None = None

    added: Sequence[dict[str, Any]] = ()
    """Added tokens in tokenizer.json, behind the vocabulary."""

    told: dict[str, Any] = NOTHING
    """What transformers has to be told besides, where it guesses."""


V, J, VJ = "vocab.txt", "tokenizer.json", "vocab.txt+tokenizer.json"
ANY = {**GENERIC, **SPECIAL}
BYTES_OF_DIGITS = {
    "type": "Sequence",
    "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    ],
}
MARKS = {"type": "Sequence", "pretokenizers": [SPLIT, {"type": "Punctuation", "behavior": "Isolated"}]}
SENTENCE = {"do_basic_tokenize": True, "never_split": None, "strip_accents": None, "tokenize_chinese_chars": True, **SPECIAL}


def cleaned(**changes):
    return {**GOOGLE, "normalizer": {**NLP, **changes}}


# Read the same by both. Those with vocab.txt are Google's algorithm with settings.
READ = (
    Settings("bert-base-uncased", V, LOWER | {"model_max_length": 512}),
    Settings("bert-base-cased", V, CASED | {"model_max_length": 512}),
    Settings("bert-base-multilingual-uncased", VJ, LOWER),
    Settings("bert-base-multilingual-cased", V, CASED),
    Settings("bert-base-chinese", V, CASED),
    Settings("chinese-macbert", V, LOWER | SENTENCE),
    Settings("klue/bert-base", V, CASED | {"never_split": None, "do_basic_tokenize": True, **SPECIAL}),
    Settings("klue/roberta-base", V, CASED | of("Bert"), TYPES["roberta"] | {"type_vocab_size": 1}),
    Settings("kykim/bert-kor-base", V, LOWER | ACCENTS),
    Settings("beomi/kcbert-base", V, CASED | {"max_len": 300}),
    Settings("monologg/koelectra-base", V, CASED | of("Electra"), TYPES["electra"]),
    Settings("google/electra-small-discriminator", V, LOWER, TYPES["electra"]),
    Settings("readerbench/RoBERT-base", V, LOWER | ACCENTS),
    Settings("dumitrescustefan/bert-base-romanian-cased", V, CASED | ACCENTS),
    Settings("KB/bert-base-swedish-cased", V, CASED | ACCENTS | {"max_len": 512}),
    Settings("deepset/gbert-base", V, CASED | ACCENTS | CJK_IN_WORDS),
    Settings("case kept, accents dropped", V, CASED | NO_ACCENTS),
    Settings("lower case, accents kept, CJK in words", V, LOWER | ACCENTS | CJK_IN_WORDS),
    Settings("Japanese without MeCab", V, CASED | CJK_IN_WORDS | SPECIAL),
    Settings("dmis-lab/biobert-v1.1", V, None, told=CASED),
    Settings("dbmdz/bert-base-turkish-cased", V, CASED | {"max_len": 512}),
    Settings("distilbert-base-uncased", V, LOWER, TYPES["distilbert"]),
    Settings("distilbert-base-multilingual-cased", VJ, CASED, TYPES["distilbert"]),
    Settings("sentence-transformers/all-MiniLM-L6-v2", VJ, LOWER | SENTENCE | of("Bert")),
    Settings("sentence-transformers/LaBSE", VJ, CASED | of("Bert")),
    Settings("saved by transformers 5", J, LOWER | SENTENCE | ACCENTS | of("Bert"), pipeline=cleaned(strip_accents=False)),
    Settings("settings are stronger than tokenizer.json", J, CASED | of("Bert")),
    Settings("of any class: case as in tokenizer.json", J, LOWER | ANY, pipeline=cleaned(lowercase=False)),
    Settings("white space alone", J, ANY, pipeline=GOOGLE | {"pre_tokenizer": SPLIT}),
    Settings("digits apart", J, ANY, pipeline={"normalizer": NFKC_LOWER, "pre_tokenizer": DIGITS}),
    Settings("no normalizer", J, ANY, pipeline=GOOGLE | {"normalizer": None}),
    Settings("controls kept", J, ANY, pipeline=cleaned(clean_text=False)),
    Settings("NFC and punctuation", J, ANY, pipeline={"normalizer": {"type": "NFC"}, "pre_tokenizer": MARKS}),
    Settings("microsoft/mpnet-base", "mpnet", LOWER | of("MPNet"), TYPES["mpnet"]),
    Settings("words alone", "words", ANY, pipeline={"normalizer": NFKC_LOWER, "pre_tokenizer": SPLIT}),
    Settings("roberta-base", "roberta", of("Roberta") | MASK, TYPES["roberta"]),
    Settings("RoBERTa with a space before texts", "roberta", of("Roberta") | MASK | {"add_prefix_space": True}, TYPES["roberta"]),
    Settings("distilroberta-base", "roberta.json", of("Roberta") | {"add_prefix_space": False}, TYPES["roberta"]),
    Settings(
        "byte pairs of digits apart", "roberta.json", GENERIC, TYPES["roberta"],
        pipeline={"normalizer": {"type": "NFC"}, "pre_tokenizer": BYTES_OF_DIGITS},
    ),
    Settings("albert-base-v2", "albert", LOWER | {"keep_accents": False}, TYPES["albert"]),
    Settings("ALBERT that keeps case", "albert", CASED | {"keep_accents": True}, TYPES["albert"]),
    Settings("xlm-roberta-base", "xlm_roberta", {}, TYPES["xlm-roberta"]),
    Settings("paraphrase-multilingual-MiniLM-L12-v2", "xlm_roberta", LOWER),
    Settings("camembert-base", "camembert", {}, TYPES["camembert"]),
    Settings("entity markers", V, LOWER | {"additional_special_tokens": ["[E1]", "[/E1]"]}),
    Settings("entity markers in a map", V, LOWER, special_tokens_map=SPECIAL | {"additional_special_tokens": ["[E1]", "[/E1]"]}),
    Settings("tokens that are words", J, LOWER | of("Bert"), added=markers(single_word=True)),
    Settings("tokens that take spaces", J, LOWER | of("Bert"), added=markers(lstrip=True, rstrip=True)),
    Settings("tokens as they are written", J, LOWER | of("Bert"), added=markers(normalized=False)),
    Settings(
        "special tokens of any class", J, ANY, pipeline=GOOGLE | {"pre_tokenizer": SPLIT},
        added=markers(special=True, normalized=False, single_word=True),
    ),
    Settings(
        "byte pairs with tokens that are words", "roberta.json", of("Roberta"), TYPES["roberta"],
        added=markers(single_word=True, lstrip=True, normalized=False),
    ),
)  # fmt: skip

# Custom programs: refused in one sentence.
REFUSED = (
    Settings("cl-tohoku/bert-base-japanese", V, CASED | {"word_tokenizer_type": "mecab", "subword_tokenizer_type": "wordpiece"}),
    Settings("cl-tohoku/bert-base-japanese-v2", V, CASED, TYPES["bert"] | of("BertJapanese")),
    Settings("cl-tohoku/bert-base-japanese-char", V, of("BertJapanese") | {"subword_tokenizer_type": "character"}),
    Settings("BertJapanese of spaces", V, of("BertJapanese") | {"word_tokenizer_type": "basic"}),
    Settings("monologg/kobert", V, of("KoBert")),
    Settings("vinai/phobert-base", "roberta", of("Phobert"), TYPES["roberta"]),
    Settings("vinai/bertweet-base", "roberta", {}, TYPES["roberta"] | of("Bertweet")),
)
