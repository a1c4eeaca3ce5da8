"""Fine-tune a classifier on a file of examples: is a sentence from the documentation of the standard library, NumPy or Keras?

Command: python examples/06_finetune.py [FOLDER OF A CHECKPOINT]
Time: a minute (a small encoder with random weights, if no checkpoint is given)
Expected output: the loss and the scores after every epoch, then precision and recall of every label and

    right on sentences never seen: at least 70 %, where a third would be guessed
    stops training when the loss on the validation data stops improving: from keras
"""

import random
import sys
import tempfile
from pathlib import Path

import keras

from keras_bert_rebuild import BertConfig, build_model, finetune, load_task, save_pretrained
from keras_bert_rebuild.cli.main import main as keras_bert
from keras_bert_rebuild.data.corpora.documents import docstring_document, docstring_files

SHAPE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
COUNTS = {"train": 600, "dev": 100, "test": 100}
QUESTION = "stops training when the loss on the validation data stops improving"


def sentences():
    """The same number of sentences of each library, as rows of a table."""
    found = {"python": set(), "numpy": set(), "keras": set()}
    for path in docstring_files(["numpy", "keras"])[::2]:
        found[next((name for name in ("numpy", "keras") if name in path.parts), "python")].update(docstring_document(path))
    draw = random.Random(0)
    count = sum(COUNTS.values())
    return [f"{text}\t{label}" for label, texts in found.items() for text in draw.sample(sorted(texts), count)]


def small_encoder(folder, corpus):
    """Write an encoder with random weights, and a vocabulary."""
    vocabulary = folder / "vocab.txt"
    assert keras_bert(["vocab", str(corpus), "--vocab-size", "4000", "--output", str(vocabulary)]) == 0
    size = len(vocabulary.read_text(encoding="utf-8").splitlines())
    save_pretrained(build_model(BertConfig(vocab_size=size, **SHAPE)), folder / "encoder", vocabulary=vocabulary)
    return folder / "encoder"


def main(checkpoint=None):
    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        rows = sentences()
        random.Random(1).shuffle(rows)
        for name, count in COUNTS.items():
            mine, rows = rows[: 3 * count], rows[3 * count :]
            (folder / f"{name}.tsv").write_text("text\tlabel\n" + "\n".join(mine), encoding="utf-8")
        rates = {} if checkpoint else {"learning_rate": 1e-3, "epochs": 3}
        # keras-bert finetune classification --model encoder --train train.tsv --dev dev.tsv --test test.tsv --output run
        done = finetune(
            "classification",
            checkpoint or small_encoder(folder, folder / "train.tsv"),
            folder / "train.tsv",
            folder / "dev.tsv",
            folder / "run",
            test=folder / "test.tsv",
            report=print,
            **({"max_len": 32, "stride": 0, "batch_size": 32, "seed": 0} | rates),
        )
        print((folder / "run" / "report.md").read_text(encoding="utf-8"))
        answer = load_task(folder / "run" / "model")([QUESTION])[0]
    print(f"    right on sentences never seen: {done.test_scores['accuracy']:.0%}, where a third would be guessed")
    print(f"    {QUESTION}: from {answer.label}")
    return done.test_scores["accuracy"], answer.label


if __name__ == "__main__":
    main(*sys.argv[1:])
