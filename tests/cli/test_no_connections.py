"""No verb opens a connection or asks for the address of a host; the export to OpenVINO is in tests/export."""

import json

import pytest
from helpers.connections import connections_of
from helpers.small_tasks import PETS, TOKENIZER, VOCABULARY, small_encoder, small_task

from keras_bert_rebuild import save_pretrained
from keras_bert_rebuild.tasks.sentence_embedder import SentenceEmbedder
from keras_bert_rebuild.tasks.text_classifier import TextClassifier


@pytest.mark.slow(torch=True)
def test_no_verb_opens_a_connection(tmp_path):
    encoder, classifier, embedder, corpus, rows = (
        tmp_path / name for name in ("encoder", "classifier", "embedder", "c.txt", "r.tsv")
    )
    save_pretrained(small_encoder(("mlm", "nsp")), encoder, vocabulary={token: i for i, token in enumerate(VOCABULARY)})
    small_task(TextClassifier, labels=["cat", "dog"]).save(classifier)
    SentenceEmbedder.from_encoder(small_encoder(), TOKENIZER).save(embedder)
    corpus.write_text("\n\n".join("the cat sat\non the mat\nanna likes ben" for _ in range(60)))
    rows.write_text("text\tlabel\n" + "".join(f"{example.text}\t{example.label}\n" for example in PETS))
    (tmp_path / "texts.txt").write_text("".join(f"{example.text}\n" for example in PETS))
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps({"_id": f"d{i}", "text": PETS[i].text}) + "\n" for i in range(6)))
    (tmp_path / "pairs.tsv").write_text("query\tpositive\n" + "".join(f"who {i}\t{PETS[i].text}\n" for i in range(3)))
    training = ["--steps", 2, "--batch-size", 4, "--max-seq-length", 16, "--held-out", 0]
    text, texts, out = "the cat sat", tmp_path / "texts.txt", lambda name: ["--output", tmp_path / name]
    noted, written = connections_of(
        tmp_path,
        ["vocab", corpus, "--vocab-size", 150, *out("vocab.txt")],
        ["prepare", corpus, "--tokenizer", encoder, "--processes", 1, *out("tokens")],
        ["pretrain", tmp_path / "tokens", "--init", encoder, *training, *out("run")],
        ["curves", tmp_path / "run"],
        ["distill", tmp_path / "tokens", "--teacher", encoder, "--num-hidden-layers", 1, *training, *out("student")],
        ["finetune", "classification", "--model", encoder, "--train", rows, "--dev", rows, "--epochs", 1, *out("tuned")],
        ["predict", "--model", classifier, "--input", texts, *out("answers.jsonl")],
        ["prune", "--model", classifier, "--amount", 0.3, "--dev", rows, *out("pruned")],
        ["plan", "--model", "tiny", "--gpu", "h100"],
        ["convert", "--model", encoder, "--format", "keras", *out("converted")],
        ["embed", texts, "--model", embedder, *out("vectors.npy")],
        ["index", tmp_path / "documents.jsonl", "--model", embedder, *out("index")],
        ["search", tmp_path / "index", "who sat"],
        [
            "mine",
            tmp_path / "pairs.tsv",
            "--corpus",
            tmp_path / "index",
            "--model",
            embedder,
            "--negatives",
            1,
            *out("groups.jsonl"),
        ],
        ["export", "--model", classifier, "--format", "huggingface", *out("exported")],
        ["inspect", "--model", encoder],
        ["explain", "--model", encoder],
        ["lens", "the cat [MASK]", "--model", encoder],
        ["probe", "--model", encoder, "--train", rows, "--dev", rows],
        ["why", text, "--model", classifier],
        ["attention", text, "--model", encoder, *out("attention.html")],
    )
    assert (noted, written) == ("", [])
