"""keras_bert's names: its model, its batches, its tokenizer, its loaders."""

from collections.abc import Iterator
from typing import Any, assert_type

import keras

from keras_bert_rebuild import (
    AdamWarmup,
    PretrainedList,
    Tokenizer,
    compile_model,
    extract_embeddings,
    fill_mask,
    gen_batch_inputs,
    get_base_dict,
    get_checkpoint_paths,
    get_custom_objects,
    get_encoders,
    get_model,
    get_pretrained,
    load_trained_model_from_checkpoint,
    load_vocabulary,
    print_summary,
)
from keras_bert_rebuild.backend import backend as K  # noqa: N812
from keras_bert_rebuild.loader import build_model_from_config

token_dict = get_base_dict()
assert_type(token_dict, dict[str, int])
pairs = [[["all", "work"], ["no", "play"]]]

model = get_model(token_num=len(token_dict), head_num=5, transformer_num=2, embed_dim=25, feed_forward_dim=100, seq_len=20)
compile_model(model, learning_rate=3e-3, decay_steps=2000, warmup_steps=50)
model.summary()
print_summary(model)


def batches() -> Iterator[Any]:
    while True:
        yield gen_batch_inputs(pairs * 4, token_dict, list(token_dict), seq_len=20, mask_rate=0.3)


history = model.fit(batches(), steps_per_epoch=500, epochs=1, validation_data=next(batches()))
model.save("bert.keras")
keras.models.load_model("bert.keras", custom_objects=get_custom_objects())
words = fill_mask(model, token_dict, "all work and no [MASK]", top_k=3)

inputs, output = get_model(30522, seq_len=128, training=False, trainable=["Encoder"], output_layer_num=[-1, -2])
classifier = keras.Model(inputs, keras.layers.Dense(2)(keras.layers.GlobalAveragePooling1D()(output)))

inputs, output = get_model(30522, training=False, use_adapter=True, adapter_units=64, trainable=["Encoder-1-FeedForward-Adapter"])
mean = keras.layers.Lambda(lambda x: K.mean(x, axis=1))(get_encoders(2, output, 12, 3072, dropout_rate=0.1))
K.set_value(AdamWarmup(1000, 100, lr=1e-4).lr, 1e-5)

tokenizer = Tokenizer(token_dict, cased=True)
ids, segments = tokenizer.encode("unaffable", "unknown", max_len=10)
assert_type(ids, list[int])
assert_type(tokenizer.tokenize("unaffable"), list[str])

folder = get_pretrained(PretrainedList.chinese_base)
assert_type(folder, str)
paths = get_checkpoint_paths(folder)
loaded = load_trained_model_from_checkpoint(paths.config, paths.checkpoint, training=True, seq_len=None)
built, config = build_model_from_config(paths.config)
assert_type(load_vocabulary(paths.vocab), dict[str, int])
for vectors in extract_embeddings(folder, ["all work", ("no", "play")], poolings="POOL_NSP"):
    print(vectors.shape)
