"""Words of texts, for any pieces of a tokenizer."""

import pytest
from helpers import small_tokenizers
from helpers.small_tasks import small_encoder, trained

from keras_bert_rebuild import TokenClassifier, WordPieceTokenizer
from keras_bert_rebuild.data.labelled.labelled_examples import TaggedText
from keras_bert_rebuild.tasks.tag_schemes import spans_of_tags
from keras_bert_rebuild.tasks.text_rows import encode_windows
from keras_bert_rebuild.tasks.words_of_tokens import words_of_tokens
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SPANS = {
    "chinese": ("我昨天从北京飞到上海，见到了王小明。", (("北京", "LOC"), ("上海", "LOC"), ("王小明", "PER"))),
    "japanese": ("昨日、田中さんは東京タワーへ行きました。", (("田中", "PER"), ("東京タワー", "LOC"))),
    "thai": ("สมชายเดินทางไปกรุงเทพเมื่อวานนี้", (("สมชาย", "PER"), ("กรุงเทพ", "LOC"))),
    "hindi": ("राम दिल्ली में रहता है।", (("राम", "PER"), ("दिल्ली", "LOC"))),
    "mixed": ("小李在Apple公司用iPhone拍照", (("小李", "PER"), ("Apple", "ORG"), ("iPhone", "MISC"))),
    "italian": ("suona l'sofia a Roma", (("l'sofia", "MISC"), ("Roma", "LOC"))),
}
PLACES = ["北京 上海 王小明 昨天", "田中 東京 タワー 行きました", "กรุงเทพ สมชาย เดินทาง", "राम दिल्ली"]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bpe")
    small_tokenizers.byte_level_bpe(folder)
    file = folder / "sentencepiece.bpe.model"
    sentences = small_tokenizers.SENTENCES + [text for text, _ in SPANS.values()] + PLACES * 5
    file.write_bytes(small_tokenizers.sentencepiece("xlm_roberta", sentences, vocab_size=400))
    characters = sorted({character for text, _ in SPANS.values() for character in text if not character.isspace()})
    pieces = [*SPECIAL, *characters, *(f"##{character}" for character in characters)]
    return {
        "bpe": ByteLevelBPETokenizer.from_pretrained(folder),
        "sentencepiece": SentencePieceTokenizer(file, family="xlm_roberta"),
        "wordpiece": WordPieceTokenizer(pieces, cased=True),
    }


def words_of(tokenizer, text, max_len=200):
    found = words_of_tokens(encode_windows(tokenizer, [text], max_len=max_len, stride=2), [text])
    firsts = [number for row in found.first_tokens for number in row.tolist() if number >= 0]
    assert firsts == list(range(found.counts[0]))  # every word has one first token, in order
    return [text[start:end] for start, end in found.offsets[0]]


@pytest.mark.parametrize(
    ("text", "pieces", "words"),
    [
        ("नमस्ते नम", ["न", "##म", "##स्", "##ते"], ["नमस्ते", "नम"]),
        ("cafe\u0301s, cafe\u0301", ["cafe\u0301", "##s", ","], ["cafe\u0301s", ",", "cafe\u0301"]),
    ],
    ids=["vowel signs", "accents"],
)
def test_a_mark_on_a_letter_ends_no_word(text, pieces, words):
    assert words_of(WordPieceTokenizer([*SPECIAL, *pieces], cased=True), text) == words


@pytest.mark.parametrize("kind", ["bpe", "wordpiece"])
def test_every_han_character_is_a_word_and_letters_between_them_are_one(tokenizers, kind):
    assert words_of(tokenizers[kind], "小李在Apple公司用iPhone拍照") == [*"小李在", "Apple", *"公司用", "iPhone", *"拍照"]
    assert words_of(tokenizers[kind], "昨日、東京タワーへ") == [*"昨日、東京タ", "ワー", "へ"]
    assert words_of(tokenizers[kind], "ไปกรุงเทพ") == [*"ไปก", "รุ", *"งเทพ"]  # a vowel sign below belongs to its consonant


def test_words_of_scripts_without_spaces_are_the_tokens_of_sentencepiece(tokenizers):
    text = SPANS["chinese"][0]
    offsets = tokenizers["sentencepiece"].encode_batch([text], return_offsets=True).offsets[0].tolist()
    pieces = [text[start:end] for start, end in offsets if end > start]
    assert words_of(tokenizers["sentencepiece"], text) == pieces
    assert any(len(piece) > 1 for piece in pieces)


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece", "wordpiece"])
def test_words_of_scripts_with_spaces_stay_whole(tokenizers, kind):
    assert words_of(tokenizers[kind], "राम दिल्ली") == ["राम", "दिल्ली"]
    assert words_of(tokenizers[kind], "서울은 한국의") == ["서울은", "한국의"]


def test_a_contraction_ends_a_word_unless_letters_follow(tokenizers):
    assert words_of(tokenizers["bpe"], "play l'sofia, it's Marten's") == ["play", "l'sofia", ",", "it", "'s", "Marten", "'s"]
    assert words_of(tokenizers["bpe"], "'sofia x's 9pm 2times") == ["'sofia", "x", "'s", "9", "pm", "2", "times"]
    encoding = tokenizers["bpe"].encode_batch([["play", "l'sofia", "now"]], is_pretokenized=True)
    assert sorted({*encoding.word_ids[0].tolist()}) == [-1, 0, 1, 2]


def tagger(tokenizer, name, max_len):
    """A tagger for an example with spans, the example and its spans."""
    text, parts = SPANS[name]
    example = TaggedText(text, tuple((text.index(part), text.index(part) + len(part), label) for part, label in parts))
    encoder = small_encoder(vocab_size=max(tokenizer.tokens) + 1, max_position_embeddings=160, pad_token_id=tokenizer.pad_id)
    labels = TokenClassifier.labels_of([example])
    return TokenClassifier.from_encoder(encoder, tokenizer, labels=labels, max_len=max_len), example, list(parts)


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece", "wordpiece"])
@pytest.mark.parametrize("name", SPANS)
def test_spans_round_trip_through_tags(tokenizers, kind, name):
    task, example, parts = tagger(tokenizers[kind], name, 150)
    offsets = task.predict_examples([example])[0].offsets
    spans = spans_of_tags(task.right_tags([example])[0])
    assert [(example.text[offsets[start][0] : offsets[end - 1][1]], label) for label, start, end in spans] == parts
    assert sorted(task.encode([example]).targets[0])[-len(offsets)] >= 0


def test_windows_of_a_long_text_without_spaces_have_each_word_once(tokenizers):
    text = "我昨天从北京飞到上海" * 12
    assert words_of(tokenizers["bpe"], text, max_len=40) == list(text)


@pytest.mark.slow
def test_entities_of_chinese_are_learned_from_spans(tokenizers):
    task, example, parts = tagger(tokenizers["sentencepiece"], "chinese", 32)
    trained(task, [example], epochs=40, rate=1e-2)
    assert [(entity.text, entity.label) for entity in task([example.text])[0].entities] == parts
