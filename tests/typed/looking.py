"""The parts of a model, and its attention."""

from pathlib import Path
from typing import assert_type

import numpy as np

from keras_bert_rebuild import BertConfig, attention_maps, explain, from_pretrained, load_tokenizer, show_attention
from keras_bert_rebuild.explain.attention_patterns import attention_patterns
from keras_bert_rebuild.explain.embedding_anatomy import embedding_anatomy
from keras_bert_rebuild.explain.nearest import nearest_tokens
from keras_bert_rebuild.explain.plot_attention import plot_attention
from keras_bert_rebuild.explain.plot_model import plot_model
from keras_bert_rebuild.explain.summary import summary_rows

explanation = explain(BertConfig(), ["pooler"], batch=8, length=128)
assert_type(explanation.total("params"), int)
print(explanation, explanation.steps[0].formula)
plot_model(BertConfig(), block=True).save("block.svg")

model, tokenizer = from_pretrained("bert-base"), load_tokenizer("bert-base")
print(summary_rows(model)[0].params)
maps = attention_maps(model, texts=["The cat sat."], pairs=["It purred."], tokenizer=tokenizer, layers=[-1], vectors=True)
assert_type(maps.probabilities, np.ndarray)
assert maps.tokens is not None
patterns = attention_patterns(maps.of_text(0).probabilities[:, 0], maps.tokens[0])
print(patterns.of_head(0, 0, threshold=0.3)[0][0])
print(embedding_anatomy(model, tokenizer, "The cat sat.").norms.shape, nearest_tokens(model, tokenizer, "cat")[0].cosine)
plot_attention(maps, layer=11, head=0, path=Path("attention.png"))
assert_type(show_attention(model, tokenizer, "The cat sat.", layers=range(2)).save("attention.html"), Path)
