"""Convert a BERT to the files of transformers and of Google and back, and add a new word to its vocabulary.

Command: python examples/05_checkpoints.py
Time: 15 seconds
Expected output: a line for every variable with the name it has in Google's files, then

    huggingface: config.json, model.safetensors, tokenizer_config.json, vocab.txt; differs by 0.0
    google: bert_config.json, bert_model.ckpt.data-00000-of-00001, bert_model.ckpt.index, vocab.txt; differs by 0.0
    k ##e ##r ##a ##s -> keras, which starts as the mean of its pieces
"""

import tempfile
from pathlib import Path

import keras
import numpy as np

from keras_bert_rebuild import WordPieceTokenizer, from_pretrained, get_base_dict, get_model, save_pretrained
from keras_bert_rebuild.pretrained.vocabulary_surgery import add_tokens

LETTERS = "abcdefghijklmnopqrstuvwxyz"


def main():
    keras.utils.set_random_seed(0)
    vocabulary = get_base_dict()
    for token in (*LETTERS, *(f"##{letter}" for letter in LETTERS)):
        vocabulary[token] = len(vocabulary)
    model = get_model(len(vocabulary), seq_len=32, pos_num=32, head_num=2, transformer_num=1, embed_dim=16, feed_forward_dim=32)
    tokenizer = WordPieceTokenizer(vocabulary)
    encoding = tokenizer.encode_batch(["keras", "bert"], pad_to=32)
    inputs = [encoding.ids, encoding.segments, np.ones_like(encoding.ids)]
    expected, _ = model.predict(inputs, verbose=0)

    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for name in ("huggingface", "google"):
            path = Path(folder) / name
            save_pretrained(model, path, name, vocabulary=vocabulary)
            again = from_pretrained(path, seq_len=32)
            difference = float(np.abs(again.predict(inputs, verbose=0)[0] - expected).max())
            worst = max(worst, difference)
            lines.append(f"    {name}: {', '.join(sorted(file.name for file in path.iterdir()))}; differs by {difference}")
        for path, source, _ in again.load_report.loaded:
            print(f"{path:<55} {source}")
    print(*lines, sep="\n")

    larger, words = add_tokens(model, vocabulary, ["keras"])
    pieces = " ".join(tokenizer.tokens[i] for i in encoding.ids[0] if i and tokenizer.tokens[i][0] != "[")
    rows = keras.ops.convert_to_numpy(larger.get_layer("Embedding-Token").get_weights()[0])
    mean = rows[[vocabulary[piece] for piece in pieces.split()]].mean(0)
    assert np.allclose(rows[words["keras"]], mean, atol=1e-6)
    print(f"    {pieces} -> keras, which starts as the mean of its pieces")
    return worst


if __name__ == "__main__":
    main()
