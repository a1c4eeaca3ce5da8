"""Texts to ids, labels of words to labels of tokens."""

from typing import assert_type

from keras_bert_rebuild import WordPieceTokenizer, load_tokenizer
from keras_bert_rebuild.text.segmented import align_labels

tokenizer = WordPieceTokenizer({"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "all": 4, "work": 5})
tokenizer = WordPieceTokenizer.from_pretrained("bert-base", cased=True)
encoding = tokenizer.encode_batch(["All work", "and a voice"], ["no play!", "echoed"], pad_to=16, return_offsets=True)
print(encoding.ids.shape, encoding.segments, encoding.offsets, encoding.inputs)
assert_type(tokenizer.decode(encoding.ids[0]), str)
assert_type(tokenizer.tokenize("all work"), list[str])
assert_type(len(tokenizer.add_tokens(["C++"])), int)

words = load_tokenizer("roberta-base").encode_batch([["all", "work"], ["no"]], is_pretokenized=True, pad_to="longest")
assert words.word_ids is not None
labels = align_labels(words.word_ids, [[1, 2], [3]])
print(labels.shape)
windows = tokenizer.encode_batch(["a long text"], max_len=128, stride=32, pad_to=[64, 128])
