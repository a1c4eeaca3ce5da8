"""Tokenizer files small enough to be trained in a test, and tokenizers whose settings differ from their files, with an encoder."""

import importlib.util
import io
import json

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

from helpers.small_tasks import VOCABULARY, small_encoder
from keras_bert_rebuild import WordPieceTokenizer
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer
from keras_bert_rebuild.text.pipeline_tokenizer import PipelineTokenizer
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer

SENTENCES = [
    "The harbour was quiet in the hour before the boats went out, and the gulls stood along the wall in a row.",
    "Old Marten had mended nets at the same bench for forty years; he never answered before his second cup of tea.",
    "She put the letter where he could see it, and waited. He read it twice, in 1,204 seconds, then in 37.",
    "It's \"unbelievable\", isn't it? They'd say: naïve café, déjà vu, Ärger über Öl.",
    "In 2007, in 1996, and by 1, 5 and 9, the lighthouse (on the northern point) was shut.",
    "the letters, the lamps, the coins, the steps of the quay: numbers and letters, hours and years",
] * 3

LINES = [
    "",
    " ",
    "The harbour was quiet.",
    "  two  spaces,\ttab\nand a line \n",
    "naïve café, déjà vu, Ärger über Öl, ﬁne ½ ² １２３ Ａ™",
    "e\u0301 cafe\u0301 a\u0327\u0301",
    "don't ``quote'' it's 1,204 and 2007, 9,",
    "中文字符と日本語 한국어 😀👨‍👩‍👧🏽 x",
    "ΑΣ ΟΔΟΣ Σ",
    "<mask> [MASK] </s> <s> <pad> [SEP]",
    "x" * 300,
    "\0 a\x01b a\u200bb a\u00adb \ufeffq",
]


def byte_level_bpe(folder):
    """Write vocab.json, merges.txt and tokenizer.json; the tokenizer that was trained."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.model.save(str(folder))
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def sentencepiece(family, sentences=None, **options):
    """The bytes of a model with the special tokens of a family."""
    import sentencepiece

    special = {
        "albert": {
            "pad_id": 0, "unk_id": 1, "bos_id": -1, "eos_id": -1,
            "control_symbols": ["[CLS]", "[SEP]", "[MASK]"], "normalization_rule_name": "nmt_nfkc",
        },
        "xlm_roberta": {"normalization_rule_name": "nmt_nfkc"},
        "deberta_v2": {
            "pad_id": 0, "bos_id": 1, "eos_id": 2, "unk_id": 3, "normalization_rule_name": "nmt_nfkc",
            "pad_piece": "[PAD]", "bos_piece": "[CLS]", "eos_piece": "[SEP]", "unk_piece": "[UNK]",
        },
        "xlnet": {
            "unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1, "normalization_rule_name": "nmt_nfkc",
            "control_symbols": ["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"], "user_defined_symbols": ["<eop>", "."],
        },
    }[family]  # fmt: skip
    model = io.BytesIO()
    if sentences is None:
        sentences = [line.lower() for line in SENTENCES] if family == "albert" else SENTENCES
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=2,
        **{"vocab_size": 160, **special, **options},
    )
    return model.getvalue()


def gemmas():
    """A pipeline as that of Gemma 2 and mmBERT: `▁` for spaces, merges in whole texts, bytes for letters that it does not have."""
    special = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>"]
    added = ["[multimodal]", "<unused0>", "\n\n", "▁▁", "<table>"]
    tokenizer = Tokenizer(BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    first_tokens = [*special, *added, *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=first_tokens, limit_alphabet=60, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    values = json.loads(tokenizer.to_str())
    tokenizer = Tokenizer.from_str(json.dumps({**values, "added_tokens": []}))
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in added])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    ends = [(token, tokenizer.token_to_id(token)) for token in ("<bos>", "<eos>")]
    tokenizer.post_processor = processors.TemplateProcessing("<bos> $A <eos>", "<bos> $A <eos> $B:1 <eos>:1", ends)
    return tokenizer


ROBERTA = {"family": "roberta", "position_offset": 2, "pad_token_id": 1, "type_vocab_size": 1, "mlm_act": "gelu_erf"}
ALBERT = {"family": "albert", "embedding_size": 8, "num_hidden_groups": 1}
TEXTS = ["The cat SAT on the mat, Naïve café!", "C++ [E1]dog", "", "anna-ben 20"]


def wordpiece(folder):
    rules = [AddedToken("C++", single_word=True), AddedToken("[E1]", special=True)]
    vocabulary = [*VOCABULARY, "C++", "[E1]"]
    cleaning = {"strip_accents": False, "tokenize_chinese_chars": False}
    return WordPieceTokenizer(vocabulary, False, rules, **cleaning, second_segment=0, truncation_side="left"), {}


def changed_bpe(folder):
    byte_level_bpe(folder)
    vocabulary, merges = folder / "vocab.json", folder / "merges.txt"
    rules = {"add_prefix_space": True, "mask_takes_space": False, "truncation_side": "left"}
    return ByteLevelBPETokenizer(vocabulary, merges, **rules), ROBERTA


def albert(folder):
    file = sentencepiece("albert", SENTENCES)
    cleaning = {"lower": False, "strip_accents": False}
    return SentencePieceTokenizer(file, "albert", **cleaning, second_segment=0, truncation_side="left"), ALBERT


def xlm_roberta(folder):
    tokenizer = SentencePieceTokenizer(sentencepiece("xlm_roberta"), "xlm_roberta")
    return SentencePieceTokenizer(tokenizer.model_file, "xlm_roberta", added_tokens={"C++": len(tokenizer)}), ROBERTA


def pipeline(folder):
    tokenizer = Tokenizer(models.WordLevel({token: i for i, token in enumerate([*VOCABULARY, "anna-ben"])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.add_tokens([AddedToken("C++", single_word=True)])
    return PipelineTokenizer(json.loads(tokenizer.to_str()), second_segment=0, truncation_side="left"), {}


KINDS = [wordpiece, changed_bpe, pipeline]
if importlib.util.find_spec("sentencepiece"):
    KINDS += [albert, xlm_roberta]


def with_encoder(kind, folder, heads=("pooler",)):
    """A tokenizer, and an encoder for it that has no tokenizer of its own."""
    tokenizer, family = kind(folder)
    return tokenizer, small_encoder(heads, vocab_size=max(tokenizer.tokens) + 1, **family)
