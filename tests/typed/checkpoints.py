"""Checkpoints: loaded, inspected, changed, saved."""

from pathlib import Path
from typing import assert_type

from keras_bert_rebuild import BertConfig, BertModel, build_model, from_pretrained, load_tokenizer, save_pretrained
from keras_bert_rebuild.explain.weight_names import weight_names
from keras_bert_rebuild.pretrained.from_pretrained import inspect_checkpoint
from keras_bert_rebuild.pretrained.vocabulary_surgery import add_tokens, prune_vocabulary, tokens_of_corpus

model = from_pretrained(Path("bert-base"), heads=["mlm"], seq_len=128, dtype="mixed_bfloat16", trainable=["Encoder-12"])
assert_type(model, BertModel)
print(model.load_report, model.config)
found = inspect_checkpoint("bert-base")
print(found["heads"], len(found["names"]))

config = BertConfig(num_hidden_layers=2, hidden_act="relu", labels=["no", "yes"])
assert_type(config.replace(vocab_size=100), BertConfig)
assert_type(config.num_params(["pooler"]), int)
small = build_model(config, ["classification"], seq_len=64)
print(weight_names(config, format="google")[0].name)

vocabulary = load_tokenizer("bert-base").vocabulary
larger, vocabulary = add_tokens(model, vocabulary, ["covid"])
smaller, vocabulary = prune_vocabulary(larger, vocabulary, tokens_of_corpus(vocabulary, ["a text"]))
save_pretrained(smaller, "my-bert", vocabulary=vocabulary)
save_pretrained(smaller, Path("my-bert"), "google", vocabulary=list(vocabulary))
