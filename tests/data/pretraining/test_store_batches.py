"""From text on disk to batches: the store gives what the same text gives in memory."""

import numpy as np
import pytest

from keras_bert_rebuild import TokenStore, WordPieceTokenizer, prepare, pretraining_batches
from keras_bert_rebuild.data.corpora.documents import encode_documents, read_documents
from keras_bert_rebuild.text.vocabulary import save_vocabulary

WORDS = ["river", "stone", "##s", "walk", "##ing", "slow", "##ly", "bird", "sing", "night", "the", "a", "."]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


def write_corpus(path, rng):
    words = ["river", "rivers", "stones", "walking", "slowly", "birds", "singing", "night", "the", "a"]
    documents = [
        "\n".join(" ".join(rng.choice(words, rng.integers(2, 12))) + "." for _ in range(rng.integers(1, 9))) for _ in range(30)
    ]
    path.write_text("\n\n".join(documents), encoding="utf-8")


@pytest.mark.parametrize("block_bytes", [150, 1000, 10**6])
@pytest.mark.parametrize("next_sentence", ["nsp", "sop", None])
def test_batches_of_a_store_are_those_of_the_same_text_in_memory(tmp_path, rng, next_sentence, block_bytes):
    write_corpus(tmp_path / "corpus.txt", rng)
    save_vocabulary(VOCABULARY, tmp_path / "vocab.txt")
    prepare(tmp_path / "corpus.txt", tmp_path / "vocab.txt", tmp_path / "tokens", workers=1, block_bytes=block_bytes)
    store = TokenStore(tmp_path / "tokens")
    tokenizer = WordPieceTokenizer(VOCABULARY)
    corpus = encode_documents(
        read_documents(tmp_path / "corpus.txt"), lambda passage: tokenizer.encode_flat([passage])[0], VOCABULARY
    )
    assert store.num_tokens == corpus.num_tokens
    made = [
        pretraining_batches(each, 4, 24, 4, seed=3, next_sentence=next_sentence) for each in (store, corpus, tmp_path / "tokens")
    ]
    for epoch in (0, 2):
        for index in (0, len(made[0]) - 1):
            for a, b, c in zip(*(_flat(each.batch(epoch, index)) for each in made), strict=True):
                np.testing.assert_array_equal(a, b)
                np.testing.assert_array_equal(a, c)


def _flat(batch):
    x, y = batch
    return [*x, *(y if isinstance(y, tuple) else (y,))]
