"""From a text file to pretraining: a vocabulary, a store of tokens, batches that can be made again one by one.

Command: python examples/04_text_to_batches.py
Time: half a minute
Expected output: counts of tokens, the progress of two epochs, then

    batch 3 of epoch 1, made alone: the same
    Unaffable -> un ##aff ##able   (or other pieces, as the vocabulary has learnt them), and their offsets in the text
"""

import tempfile
from pathlib import Path

import keras
import numpy as np

from keras_bert_rebuild import TokenStore, WordPieceTokenizer, compile_model, get_model, prepare, pretraining_batches
from keras_bert_rebuild.cli.main import main as keras_bert
from keras_bert_rebuild.data.corpora.documents import docstring_document, docstring_files


def main():
    keras.utils.set_random_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        corpus, vocabulary, tokens = (Path(folder) / name for name in ("corpus.txt", "vocab.txt", "tokens"))
        documents = [document for document in map(docstring_document, docstring_files(["numpy"])[:150]) if document]
        corpus.write_text("\n\n".join("\n".join(document) for document in documents), encoding="utf-8")

        # keras-bert vocab corpus.txt --vocab-size 3000 --output vocab.txt
        assert keras_bert(["vocab", str(corpus), "--vocab-size", "3000", "--output", str(vocabulary)]) == 0
        # keras-bert prepare corpus.txt --tokenizer vocab.txt --output tokens
        prepare(corpus, vocabulary, tokens, workers=1)

        store = TokenStore(tokens)
        print(f"{store.num_tokens:,} tokens of {len(store.document_starts) - 1:,} documents")
        settings = {"batch_size": 16, "seq_len": 64, "max_predictions": 10, "masking": "whole_word", "steps_per_epoch": 20}
        batches = pretraining_batches(store, **settings)
        shape = {"head_num": 2, "transformer_num": 2, "embed_dim": 64, "feed_forward_dim": 128}
        model = get_model(len(store.vocabulary), seq_len=64, pos_num=64, **shape)
        compile_model(model, decay_steps=40, warmup_steps=4, learning_rate=1e-3, max_predictions=10)
        model.fit(batches, epochs=2, shuffle=False, verbose=2)

        # After a crash the run resumes at any batch: none before it has to be made.
        again = pretraining_batches(store, **settings)
        same = all(np.array_equal(a, b) for a, b in zip(again.batch(1, 3)[0], batches.batch(1, 3)[0], strict=True))
        print(f"    batch 3 of epoch 1, made alone: {'the same' if same else 'different'}")

        tokenizer = WordPieceTokenizer(vocabulary)
        text = "Unaffable"
        encoding = tokenizer.encode_batch([text], return_offsets=True, pad_to="longest")
        pieces = [tokenizer.tokens[i] for i in encoding.ids[0, 1:-1].tolist()]
        print(f"    {text} -> {' '.join(pieces)}   at {encoding.offsets[0, 1:-1].tolist()}")
    return same, "".join(piece.removeprefix("##") for piece in pieces)


if __name__ == "__main__":
    main()
