"""Tasks that search, run by ONNX Runtime and OpenVINO: vectors, scores, words and tokens; what int8 costs; the page on serving."""

import itertools
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from eight_scripts import TEXTS, small_export
from helpers.guide_pages import blocks
from helpers.small import spread
from tokenizers import Tokenizer

import keras_bert_rebuild
from keras_bert_rebuild import LateInteractionEmbedder, Reranker, SentenceEmbedder, SparseEmbedder
from keras_bert_rebuild.export.evaluation import Evaluation
from keras_bert_rebuild.export.openvino import OpenVINORunner
from keras_bert_rebuild.pretrained.sentence_modules import DenseModule, NormModule, ResidualModule, UnitModule
from keras_bert_rebuild.tasks.embedding_model import POOLINGS
from keras_bert_rebuild.tasks.retrieval_rows import MarkedRows

SHORT = [text for text in TEXTS if text.strip() and len(text) < 100]


def outputs(folder, rows):
    """What ONNX Runtime answers for encodings of the package tokenizers, and the names of the answers."""
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"))
    columns = {"input_ids": "ids", "token_type_ids": "type_ids", "attention_mask": "attention_mask"}
    given = {tensor.name: np.array([getattr(row, columns[tensor.name]) for row in rows]) for tensor in session.get_inputs()}
    return {tensor.name: value for tensor, value in zip(session.get_outputs(), session.run(None, given), strict=True)}


def embedder(rng, **settings):
    model, tokenizer = small_export(rng)
    return SentenceEmbedder(model, tokenizer, truncate=True, **settings)


def modules(rng, width):
    kernel, bias = rng.normal(size=(width, 7)).astype("float32"), rng.normal(size=7).astype("float32")
    norm = NormModule(*rng.normal(size=(2, 7)).astype("float32"))
    square, matrix = rng.normal(size=(2, 7, 7)).astype("float32")
    around = [ResidualModule(square, bias, "relu", None), ResidualModule(matrix[:, :6], None, "sigmoid", square[:, :6])]
    return [DenseModule(kernel, bias, "tanh"), norm, *around, UnitModule()]


@pytest.mark.parametrize("include_prompt", [True, False])
def test_vectors_with_all_poolings_modules_and_a_prompt(tmp_path, rng, include_prompt):
    prompts = {"query": "word word "}
    settings = {"poolings": tuple(POOLINGS), "modules": modules(rng, 16 * len(POOLINGS)), "truncate_dim": 5}
    task = embedder(rng, **settings, prompts=prompts, include_prompt=include_prompt)
    keras_bert_rebuild.export(task, None, tmp_path / "onnx", "onnx", prompt="query")
    told = json.loads((tmp_path / "onnx" / "export.json").read_text())
    assert (told["kind"], told["prompt"], told["outputs"]) == ("embedding", "word word ", ["sentence_embedding"])
    assert told["prompts"] == ({"query": "word word ", "document": ""} if include_prompt else {})
    tokenizer = Tokenizer.from_file(str(tmp_path / "onnx" / "tokenizer.json"))
    got = outputs(tmp_path / "onnx", tokenizer.encode_batch([told["prompt"] + text for text in TEXTS]))
    np.testing.assert_allclose(got["sentence_embedding"], task(TEXTS, prompt="query"), atol=1e-5)


@pytest.mark.parametrize("activation", ["sigmoid", "linear"])
def test_scores_of_pairs(tmp_path, rng, activation):
    model, tokenizer = small_export(rng)
    task = Reranker.from_encoder(model, tokenizer, activation=activation, truncate=True)
    spread(task.model, rng)
    keras_bert_rebuild.export(task, None, tmp_path / "onnx", "onnx")
    pairs = list(itertools.pairwise(TEXTS))
    rows = Tokenizer.from_file(str(tmp_path / "onnx" / "tokenizer.json")).encode_batch(pairs)
    np.testing.assert_allclose(outputs(tmp_path / "onnx", rows)["score"][:, 0], task.scores_of(pairs), atol=1e-5)


@pytest.mark.parametrize(("pooling", "activation"), [("max", "log1p_relu"), ("sum", "log1p_log1p_relu")])
def test_weights_of_words(tmp_path, rng, pooling, activation):
    model, tokenizer = small_export(rng, ["mlm"])
    task = SparseEmbedder(model, tokenizer, pooling=pooling, activation=activation, truncate=True)
    keras_bert_rebuild.export(task, None, tmp_path / "onnx", "onnx")
    rows = Tokenizer.from_file(str(tmp_path / "onnx" / "tokenizer.json")).encode_batch(SHORT)
    got = outputs(tmp_path / "onnx", rows)["word_weights"]
    for row, (ids, weights) in zip(got, task(SHORT), strict=True):
        np.testing.assert_array_equal(np.flatnonzero(row > 1e-6), ids[weights > 1e-6])
        np.testing.assert_allclose(row[ids], weights, atol=1e-5)


@pytest.mark.parametrize("attended", [True, False])
def test_vectors_of_tokens(tmp_path, rng, attended):
    model, tokenizer = small_export(rng)
    settings = {"query_prefix": "[UNK] ", "query_len": 12, "document_len": 20, "attend_to_expansion": attended}
    task = LateInteractionEmbedder.from_encoder(model, tokenizer, token_width=5, **settings)
    keras_bert_rebuild.export(task, None, tmp_path / "openvino", "openvino")
    runner = OpenVINORunner(tmp_path / "openvino")
    for of, expected in (("query", task.queries(SHORT)), ("document", task.documents(SHORT))):
        rows = MarkedRows.from_settings(runner.tokenizer, **runner.settings["rows"][of])(SHORT)
        for row, vectors, own in zip(rows, runner(rows, 0), expected, strict=True):
            np.testing.assert_allclose(vectors[: len(row.ids)][row.scored > 0], own, atol=1e-5)


TASKS = {
    "embedding": lambda rng: embedder(rng, prompts={"query": "word "}),
    "reranking": lambda rng: Reranker.from_encoder(*small_export(rng)),
    "sparse_embedding": lambda rng: SparseEmbedder(*small_export(rng, ["mlm"])),
    "late_interaction": lambda rng: LateInteractionEmbedder.from_encoder(*small_export(rng), token_width=5, query_len=12),
}


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize("kind", TASKS)
def test_what_int8_costs_is_in_the_folder(tmp_path, rng, kind):
    task = TASKS[kind](rng)
    spread(task.model, rng)
    texts = [f"{one} {other}" for one in SHORT for other in SHORT[:4]]
    corpus = {f"d{i}": text for i, text in enumerate(SHORT)}
    judgements = {f"q{i}": {f"d{i}": 1} for i in range(4)}
    evaluation = Evaluation({f"q{i}": SHORT[i][:20] for i in range(4)}, corpus, judgements)
    given = [f"{text}\t{text[::-1]}" for text in texts] if kind == "reranking" else texts
    keras_bert_rebuild.export(task, None, tmp_path / "int8", "openvino_int8", texts=given, evaluation=evaluation)
    quality = json.loads((tmp_path / "int8" / "export.json").read_text())["quality"]
    assert quality["spearman"] > 0.97  # 0.86 where sums of products overflow
    assert set(quality["ndcg@10"]) == {"float32", "int8"}
    assert all(0 <= value <= 1 for value in quality["ndcg@10"].values())
    if kind == "embedding":
        run = {query: dict.fromkeys(corpus, 0.0) for query in judgements}
        vectors = dict(zip(corpus, task.documents(corpus.values()), strict=True))
        for query, vector in zip(run, task.queries([evaluation.queries[name] for name in run]), strict=True):
            run[query] = {name: float(vector @ other) for name, other in vectors.items()}
        expected = keras_bert_rebuild.tasks.metrics.ranking_scores(judgements, run, ["ndcg@10"])["ndcg@10"]
        assert quality["ndcg@10"]["float32"] == pytest.approx(expected, abs=1e-5)


def test_prompts_of_a_folder_are_names_or_texts(tmp_path, rng):
    keras_bert_rebuild.export(embedder(rng, prompts={"query": "word "}), None, tmp_path / "folder", "openvino")
    runner = OpenVINORunner(tmp_path / "folder")
    assert [runner.prompt(name) for name in (None, "query", "document", "word: ")] == ["", "word ", "", "word: "]
    left_out = embedder(rng, prompts={"query": "word "}, default_prompt="query", include_prompt=False)
    keras_bert_rebuild.export(left_out, None, tmp_path / "folder", "openvino")
    runner = OpenVINORunner(tmp_path / "folder")
    assert runner.prompt() == "word "
    with pytest.raises(ValueError, match="prompt must be None or the exported 'word ', which is not pooled; got 'document'"):
        runner.prompt("document")


def test_mistakes_are_reported_in_a_sentence(tmp_path, rng):
    evaluation = Evaluation({"q": "a"}, {"d": "a"}, {"q": {"d": 1}})
    task = embedder(rng)
    for model, options, message in (
        (task, {"poolings": "mean"}, "poolings must be left out for a SentenceEmbedder"),
        (task.encoder, {}, "a model needs its tokenizer"),
        (task.encoder, {"prompt": "query"}, "prompt and evaluation need a task"),
        (task, {"evaluation": evaluation}, "evaluation is only for the format openvino_int8, .* got onnx"),
        (
            TASKS["reranking"](rng),
            {"prompt": "query"},
            "prompt must be None for reranking, which has no vectors of texts; got 'query'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            keras_bert_rebuild.export(model, None, tmp_path / "folder", "onnx", **options)
    with pytest.raises(ValueError, match="a query, a tab and a text on every line; got 'no pair'"):
        keras_bert_rebuild.export(TASKS["reranking"](rng), None, tmp_path / "folder", "openvino_int8", texts=["no pair"] * 3)
    with pytest.raises(ValueError, match="judgements must be of the given queries and documents; got e"):
        Evaluation({"q": "a"}, {"d": "a"}, {"q": {"e": 1}})
    assert not (tmp_path / "folder").exists()


# The programs on docs/guides/export.md that run what was exported, as written.


PAGE = Path(__file__).parents[2] / "docs" / "guides" / "export.md"


def program(beginning):
    """The program of the page that begins with these words."""
    (block,) = (block for _, block in blocks(PAGE) if block.startswith(beginning))
    return block


@pytest.mark.slow(torch=True)
@pytest.mark.parametrize(
    ("beginning", "folder", "format", "printed"),
    [
        ("import tensorflow", "served/1", "saved_model", "2, 16"),
        ("import numpy as np\nimport onnxruntime", "onnx", "onnx", "1. "),
        ("import numpy as np\nimport openvino", "openvino", "openvino", "2, 16"),
    ],
)
def test_ten_lines_serve_a_model(tmp_path, rng, beginning, folder, format, printed):
    keras_bert_rebuild.export(*small_export(rng), tmp_path / folder, format, poolings="mean", normalize=True)
    block = program(beginning)
    assert len([line for line in block.splitlines() if line]) <= 11
    done = subprocess.run([sys.executable, "-I", "-c", block], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert printed in done.stdout


@pytest.mark.slow(torch=True)
def test_vectors_of_tokens_come_from_the_rows_of_the_folder(tmp_path, rng, monkeypatch):
    task = LateInteractionEmbedder.from_encoder(*small_export(rng), token_width=5, query_len=9)
    keras_bert_rebuild.export(task, None, tmp_path / "late", "openvino")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(program("from keras_bert_rebuild.export.openvino"), names)
    assert [vectors.shape for vectors in names["vectors"]] == [(9, 5)]
