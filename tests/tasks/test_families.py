"""Every task with every family: inputs, tokenizers and folders."""

import pytest
from helpers.small_tasks import TOKENIZER, small_encoder
from helpers.small_tokenizers import byte_level_bpe

from keras_bert_rebuild import QuestionAnswerer, SentenceEmbedder, TextClassifier, TokenClassifier, load_task
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer

ROBERTA = {
    "family": "roberta",
    "vocab_size": 420,
    "position_offset": 2,
    "pad_token_id": 1,
    "type_vocab_size": 1,
    "mlm_act": "gelu_erf",
    "dropout_before_pooler": True,
}
DISTILBERT = {"family": "distilbert", "type_vocab_size": 0, "pooler_act": "relu"}
ALBERT = {"family": "albert", "embedding_size": 8, "num_hidden_groups": 1}
ELECTRA = {
    "family": "electra",
    "embedding_size": 8,
    "mlm_act": "gelu_erf",
    "pooler_act": "gelu_erf",
    "hidden_act": "gelu_erf",
    "dropout_before_pooler": True,
}
TEXT = "The harbour was quiet, in London: naïve café! " * 3


@pytest.fixture(scope="module")
def byte_level(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bpe")
    byte_level_bpe(folder)
    return ByteLevelBPETokenizer.from_pretrained(folder), folder


@pytest.mark.parametrize("family", [ROBERTA, DISTILBERT, ALBERT, ELECTRA], ids=lambda family: family["family"])
@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (TextClassifier, {"labels": ("a", "b")}),
        (TokenClassifier, {"labels": ("O", "B-a", "I-a")}),
        (QuestionAnswerer, {}),
        (SentenceEmbedder, {}),
    ],
)
def test_a_task_answers_and_is_loaded_from_its_folder(tmp_path, byte_level, family, cls, settings):
    tokenizer = byte_level[1] if family is ROBERTA else TOKENIZER
    task = cls.from_encoder(small_encoder(**family), tokenizer, max_len=38, **settings)
    arguments = (["who", "where"], TEXT) if cls is QuestionAnswerer else ([TEXT, "the cat"],)
    answers = task(*arguments)
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert type(again.tokenizer) is type(task.tokenizer)
    assert str(again(*arguments)) == str(answers)


def test_entities_and_answers_of_byte_level_pieces_have_no_space_before_them(byte_level):
    tokenizer, folder = byte_level
    tagger = TokenClassifier.from_encoder(small_encoder(**ROBERTA), folder, labels=("O", "B-a", "I-a"))
    offsets = tagger(["The harbour  was quiet, in London."])[0].offsets
    assert ["The harbour  was quiet, in London."[start:end] for start, end in offsets] == [
        "The", "harbour", "was", "quiet", ",", "in", "London", "."
    ]  # fmt: skip
    answerer = QuestionAnswerer.from_encoder(small_encoder(**ROBERTA), tokenizer, best=50)
    assert not [
        span.text for span in answerer(["who"], "The harbour  was quiet, in London.")[0].best if span.text.strip() != span.text
    ]
