"""Models: their checkpoints, their parts and attention, a corpus and a run on it, and layers in your own model."""

from pathlib import Path
from typing import assert_type

import keras
import numpy as np

from keras_bert_rebuild import (
    AdamW,
    BertConfig,
    BertModel,
    BucketedBatches,
    TokenStore,
    attention_maps,
    build_model,
    calc_train_steps,
    compile_model,
    distribute,
    explain,
    from_pretrained,
    gelu,
    load_tokenizer,
    plan,
    prepare,
    pretrain,
    pretraining_batches,
    save_pretrained,
    show_attention,
)
from keras_bert_rebuild.data.pretraining.tf_pretraining_batches import tf_pretraining_batches
from keras_bert_rebuild.explain.attention_patterns import attention_patterns
from keras_bert_rebuild.explain.embedding_anatomy import embedding_anatomy
from keras_bert_rebuild.explain.nearest import nearest_tokens
from keras_bert_rebuild.explain.plot_attention import plot_attention
from keras_bert_rebuild.explain.plot_model import plot_model
from keras_bert_rebuild.explain.summary import summary_rows
from keras_bert_rebuild.explain.weight_names import weight_names
from keras_bert_rebuild.layers import (
    ACTIVATIONS,
    Add,
    EmbeddingSimilarity,
    FeedForward,
    LayerNormalization,
    MultiHeadSelfAttention,
    PositionEmbedding,
    TokenEmbedding,
    get_activation,
    get_inputs,
)
from keras_bert_rebuild.pretrained.from_pretrained import inspect_checkpoint
from keras_bert_rebuild.pretrained.vocabulary_surgery import add_tokens, prune_vocabulary, tokens_of_corpus
from keras_bert_rebuild.recipes.planning.plan import Plan
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.training.losses import PretrainingLoss
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import Lamb
from keras_bert_rebuild.training.optimizers.by_path import averaged_weights
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.save_checkpoints import SaveCheckpoints

model = from_pretrained(Path("bert-base"), heads=["mlm"], seq_len=128, dtype="mixed_bfloat16", trainable=["Encoder-12"])
assert_type(model, BertModel)
print(model.load_report, model.config)
contents = inspect_checkpoint("bert-base")
print(contents["heads"], len(contents["names"]))

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


prepare("corpus", "vocab.txt", "tokens", workers=2)
store = TokenStore(Path("tokens"))
print(store.ids_at(range(10)).dtype, store.document_starts[-1], store.num_tokens)
batches = pretraining_batches(store, batch_size=32, seq_len=128, max_predictions=20, masking="whole_word")
dataset = tf_pretraining_batches(batches, epochs=None)
buckets = BucketedBatches([[[1, 2, 3], [4]], [[0, 0, 0], [0]]], labels=[0, 1], batch_size=2, buckets=[4, 8])

steps, warmup = calc_train_steps(num_example=1024, batch_size=32, epochs=10)
assert_type(steps, int)
with distribute("data"):
    model = build_model(BertConfig(vocab_size=len(store.vocabulary)), ["mlm", "nsp"])
    compile_model(model, max_predictions=20, optimizer=AdamW(1e-4, ema_momentum=0.99))
    model.fit(batches, callbacks=[SaveCheckpoints("run/checkpoints", every_steps=1000)])
    with averaged_weights(model):
        model.evaluate(batches)
newest = CheckpointFolder("run/checkpoints", keep=2).newest()
print(None if newest is None else newest.step, Lamb(learning_rate=1e-3, weight_decay=0.01))

settings = PretrainSettings(steps=1000, lengths=[64, 128], phases=[{"steps": 10, "seq_len": 64}])
trained = pretrain(store, "run", settings, report=print, seed=1)
trained.save("bert.keras")
pretrain("tokens", "run", {"model": "small", "steps": 20})
planned = plan("large", tpu="v5e:4x4", batch_size=1024, seq_len=128)
assert_type(planned, Plan)
print(planned.fits, planned.hours)


tokens = get_inputs(seq_len=16)[0]
x, table = TokenEmbedding(100, 8, name="Tokens")(tokens)
x = PositionEmbedding(16, 8, mode="add")(x)
x = LayerNormalization()(Add()([x, MultiHeadSelfAttention(2, attention_dropout=0.1)(x)]))
x = FeedForward(32, activation=gelu)(x)
custom = keras.Model(tokens, EmbeddingSimilarity()([x, table]))
custom.compile("adam", PretrainingLoss(max_predictions=4))
print(get_activation("gelu"), sorted(ACTIVATIONS))
