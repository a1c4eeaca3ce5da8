"""Search in vectors of texts, and pass the model to a process without this library.

Command: python examples/07_embed_and_serve.py [FOLDER OF A CHECKPOINT]
Time: half a minute (if no checkpoint is given a small encoder with random weights, which finds words, not their sense)
Expected output: the sentences of NumPy's documentation that are next to a question, with their cosines, then

    TensorFlow alone gives the same vectors: the largest difference is below 1e-5
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import keras
import numpy as np

import keras_bert_rebuild
from keras_bert_rebuild import BertConfig, EmbeddingStream, build_model, from_pretrained, load_tokenizer, save_pretrained
from keras_bert_rebuild.cli.main import main as keras_bert
from keras_bert_rebuild.data.corpora.documents import docstring_document, docstring_files

SHAPE = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256}
QUESTION = "compute the inverse of a square matrix"
SERVER = """
import sys
import numpy as np
import tensorflow as tf
import tensorflow_text  # its operations are in the graph
answer = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
np.save(sys.argv[2], answer(text=tf.constant(sys.argv[3:]))["sentence_embedding"])
assert "keras_bert_rebuild" not in sys.modules
"""


def small_encoder(folder, texts):
    (folder / "corpus.txt").write_text("\n".join(texts), encoding="utf-8")
    vocabulary = folder / "vocab.txt"
    assert keras_bert(["vocab", str(folder / "corpus.txt"), "--vocab-size", "4000", "--output", str(vocabulary)]) == 0
    size = len(vocabulary.read_text(encoding="utf-8").splitlines())
    save_pretrained(build_model(BertConfig(vocab_size=size, **SHAPE)), folder / "encoder", vocabulary=vocabulary)
    return folder / "encoder"


def main(checkpoint=None):
    keras.utils.set_random_seed(0)
    files = [path for path in docstring_files(["numpy"]) if "linalg" in path.parts]
    texts = list(dict.fromkeys(text for path in files for text in docstring_document(path)))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        checkpoint = checkpoint or small_encoder(folder, texts)
        model, tokenizer = from_pretrained(checkpoint, heads=()), load_tokenizer(checkpoint)
        embed = EmbeddingStream.from_model(model, tokenizer, normalize=True)
        vectors = embed(texts)  # keras-bert embed texts.txt --model encoder --output vectors.npy
        cosines = vectors @ embed([QUESTION])[0]
        for i in np.argsort(-cosines)[:3]:
            print(f"{cosines[i]:.3f}  {texts[i][:110]}")

        keras_bert_rebuild.export(model, tokenizer, folder / "served" / "1", poolings="mean", normalize=True)
        command = [sys.executable, "-c", SERVER, folder / "served" / "1", folder / "vectors.npy", *texts[:20]]
        subprocess.run(list(map(str, command)), check=True, cwd=folder)
        difference = float(np.abs(np.load(folder / "vectors.npy") - vectors[:20]).max())
    print(f"    TensorFlow alone gives the same vectors: the largest difference is {difference:.1e}")
    return difference


if __name__ == "__main__":
    main(*sys.argv[1:])
