"""A corpus, its batches, a run on them, and the cost of a run."""

from pathlib import Path
from typing import assert_type

from keras_bert_rebuild import (
    AdamW,
    BertConfig,
    BucketedBatches,
    TokenStore,
    build_model,
    calc_train_steps,
    compile_model,
    distribute,
    plan,
    prepare,
    pretrain,
    pretraining_batches,
)
from keras_bert_rebuild.data.pretraining.tf_pretraining_batches import tf_pretraining_batches
from keras_bert_rebuild.recipes.planning.plan import Plan
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings
from keras_bert_rebuild.training.optimizers.adamw_and_lamb import Lamb
from keras_bert_rebuild.training.optimizers.by_path import averaged_weights
from keras_bert_rebuild.training.state.checkpoint_folder import CheckpointFolder
from keras_bert_rebuild.training.state.save_checkpoints import SaveCheckpoints

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
