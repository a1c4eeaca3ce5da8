"""Vectors of texts, and models for other runtimes."""

from pathlib import Path
from typing import assert_type

from keras_bert_rebuild import EmbeddingStream, export, from_pretrained, load_tokenizer

model, tokenizer = from_pretrained("encoder", heads=[]), load_tokenizer("encoder")
stream = EmbeddingStream.from_model(model, tokenizer, poolings=["mean"], normalize=True, max_len=128)
print(stream(["a text"]).shape)
with open("texts.txt", encoding="utf-8") as lines:
    for vector in stream.stream(lines):
        print(vector.mean())

assert_type(export(model, tokenizer, "served/1"), Path)
export(model, "encoder", Path("int8"), "openvino_int8", poolings="mean", normalize=True, texts=["a text"] * 300)
