"""The model of a task: a new head, its encoder of any family, a head fitted to texts, the tokenizer before and after saving."""

import keras
import numpy as np
import pytest
from helpers import small_tokenizers
from helpers.small_tasks import CONFIG, TOKENIZER, VOCABULARY, WORDS, sentence, small_encoder, small_task
from helpers.small_tokenizers import byte_level_bpe

from keras_bert_rebuild import (
    QuestionAnswerer,
    SentenceEmbedder,
    SparseEmbedder,
    TextClassifier,
    TokenClassifier,
    WordPieceTokenizer,
    add_lora,
    build_model,
    from_pretrained,
    load_task,
    load_tokenizer,
)
from keras_bert_rebuild.pretrained.save_pretrained import save_pretrained
from keras_bert_rebuild.tasks.model_of_task import model_with_head, predict_own_tokens
from keras_bert_rebuild.text.byte_level_bpe import ByteLevelBPETokenizer

IDS = np.array([[2, 5, 6, 8, 3]])


def pooled(model):
    below = keras.Model(model.inputs, model.get_layer("NSP-Dense").output)
    return keras.ops.convert_to_numpy(below([IDS, IDS * 0]))


def test_low_rank_matrices_of_the_encoder_are_added_to_its_kernels(rng):
    encoder = small_encoder()
    before = pooled(encoder)
    add_lora(encoder, rank=2)
    for variable in encoder.weights:
        if "lora_kernel" in variable.path:
            variable.assign(rng.normal(0, 0.3, variable.shape).astype("float32"))
    model = model_with_head(encoder, ("classification",), ("a", "b"))
    assert np.abs(pooled(model) - before).max() > 0.01
    np.testing.assert_allclose(pooled(model), pooled(encoder), atol=1e-5)
    assert [path for path, _ in model.load_report.missing] == ["Classification/kernel", "Classification/bias"]


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize` method:UserWarning")
def test_a_quantised_encoder_is_refused():
    encoder = small_encoder()
    encoder.quantize("int8")
    with pytest.raises(ValueError, match=r"must not be quantised; .* has the dtype int8"):
        model_with_head(encoder, ("classification",), ("a", "b"))


def is_normal(kernel, deviation):
    """Whether many draws follow an untruncated normal distribution; truncated at two deviations it has 0.88 of its deviation."""
    assert kernel.std() == pytest.approx(deviation, rel=0.02)
    assert abs(kernel.mean()) < 0.02 * deviation
    assert (np.abs(kernel) > 2 * deviation).mean() == pytest.approx(0.0455, abs=0.005)


@pytest.mark.parametrize("width", [16, 64])
def test_a_new_head_is_drawn_with_the_deviation_of_its_width(width):
    labels = [f"label {i}" for i in range(40_000 // width)]
    encoder = build_model(CONFIG.replace(hidden_size=width), ("pooler",))
    model = model_with_head(encoder, ("classification",), labels)
    kernel, bias = (keras.ops.convert_to_numpy(weight) for weight in model.get_layer("Classification").weights)
    is_normal(kernel, width**-0.5)
    assert not bias.any()


def test_a_new_pooler_is_drawn_with_the_deviation_of_the_config():
    encoder = build_model(CONFIG.replace(hidden_size=200, initializer_range=0.05), ())
    model = model_with_head(encoder, ("classification",), ("a", "b"))
    kernel, bias = (keras.ops.convert_to_numpy(weight) for weight in model.get_layer("NSP-Dense").weights)
    is_normal(kernel, 0.05)
    assert not bias.any()


KINDS = pytest.mark.parametrize("kind", small_tokenizers.KINDS, ids=lambda kind: kind.__name__)


def rows(tokenizer):
    return [row.tolist() for row in tokenizer.encode_batch(small_tokenizers.TEXTS, special_tokens_in_text=True).ids]


@KINDS
def test_a_given_tokenizer_is_loaded_with_the_task(tmp_path, kind):
    tokenizer, encoder = small_tokenizers.with_encoder(kind, tmp_path)
    task = TextClassifier.from_encoder(encoder, tokenizer, labels=("a", "b"))
    task.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert again.tokenizer == task.tokenizer
    assert rows(again.tokenizer) == rows(tokenizer)
    assert str(again(small_tokenizers.TEXTS)) == str(task(small_tokenizers.TEXTS))


@KINDS
def test_a_given_tokenizer_is_saved_by_save_pretrained(tmp_path, kind):
    tokenizer, encoder = small_tokenizers.with_encoder(kind, tmp_path)
    save_pretrained(encoder, tmp_path / "folder", vocabulary=tokenizer)
    assert load_tokenizer(tmp_path / "folder") == tokenizer
    # It has priority over the files of a model.
    other = from_pretrained(tmp_path / "folder")
    save_pretrained(other, tmp_path / "other")
    assert load_tokenizer(tmp_path / "other") == tokenizer


def test_a_wordpiece_roberta_of_one_segment_takes_pairs(tmp_path):
    vocabulary = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]", *VOCABULARY[5:]]
    family = small_tokenizers.ROBERTA | {"vocab_size": len(vocabulary)}
    tokenizer = WordPieceTokenizer(vocabulary)
    answerer = QuestionAnswerer.from_encoder(small_encoder(**family), tokenizer, max_len=38)
    assert answerer.tokenizer.second_segment == 0
    answers = answerer(["who", "where"], "anna sat on the mat in paris")
    answerer.save(tmp_path / "task")
    again = load_task(tmp_path / "task")
    assert again.tokenizer == answerer.tokenizer
    assert str(again(["who", "where"], "anna sat on the mat in paris")) == str(answers)
    assert load_tokenizer(tmp_path / "task").second_segment == 0


@pytest.fixture
def texts(rng):
    return [sentence(rng, 10) for _ in range(40)]


def logits_of(task, texts):
    """The logits of every token but those at the ends of a text, `(tokens, vocabulary)`, and its own id."""
    encoder = task.encoder
    states = keras.Model(task.model.inputs, encoder.get_layer("MLM-Norm").output)
    table = keras.ops.convert_to_numpy(encoder.get_layer("Embedding-Token").embeddings)
    bias = keras.ops.convert_to_numpy(encoder.get_layer("MLM-Sim").bias)
    rows = [np.array([row]) for row in task.windows(texts).ids]
    found = [keras.ops.convert_to_numpy(states([row, np.zeros_like(row)]))[0, 1:-1] @ table.T + bias for row in rows]
    return np.concatenate(found), np.concatenate([row[0, 1:-1] for row in rows])


def test_tokens_predict_themselves_in_a_model_of_random_weights(texts):
    task = small_task(SparseEmbedder, max_len=16)

    def right():
        logits, ids = logits_of(task, texts)
        return np.mean(logits.argmax(axis=1) == ids)

    before = right()
    predict_own_tokens(task, texts)
    assert before < 0.1
    assert right() > 0.4


def test_the_median_logit_of_a_token_itself_is_the_one_that_is_asked_for(texts):
    task = small_task(SparseEmbedder, max_len=16)
    predict_own_tokens(task, texts, own=0.6, threshold=0.5)
    logits, ids = logits_of(task, texts)
    assert np.median(logits[np.arange(len(ids)), ids]) == pytest.approx(0.6, abs=0.01)


def test_too_few_tokens_are_refused():
    with pytest.raises(ValueError, match=r"expected texts of at least \d+ tokens, twice the width of the model; got 2"):
        predict_own_tokens(small_task(SparseEmbedder, max_len=16), [" ".join(WORDS[:2])])


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
