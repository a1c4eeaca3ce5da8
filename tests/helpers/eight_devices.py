"""The same training on one, eight and two by four JAX devices; prints the results as JSON."""

import json
import tempfile

import keras
import numpy as np

from helpers import hosts_run
from helpers.distributed_training import STEPS, Trained
from keras_bert_rebuild import pretrain

DROPOUT = 0.1


def parts(model):
    """The weights and moments that are sharded: by path, the shape of the whole and of the part on a device."""
    variables = [*model.weights, *model.optimizer.variables]
    cut = [variable for variable in variables if not variable.value.is_fully_replicated]
    return {v.path: [list(v.shape), list(v.value.addressable_shards[0].data.shape)] for v in cut}


def main():
    one, data, model = Trained("none", DROPOUT), Trained("data", DROPOUT), Trained("model", DROPOUT, model_devices=4)
    batch = data.model.predict_on_batch  # a model trained on several devices is used outside of the scope
    answers = batch((np.full((3, 12), 9), np.zeros((3, 12), "int32"), np.ones((3, 12), "int32")))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        pretrain(hosts_run.corpus(), folder, hosts_run.SETTINGS, distribute="none", report=rows.append)
    print(
        json.dumps(
            {
                "losses": {"one": one.losses, "data": data.losses, "model": model.losses},
                "evaluated": {"one": one.evaluated, "data": data.evaluated, "model": model.evaluated},
                "again": data.train(0, STEPS // 2, data.first),
                "one after data": one.train(STEPS // 2, STEPS, data.middle),
                "model after one": model.train(STEPS // 2, STEPS, one.middle),
                "parts": parts(model.model),
                "cut on data": parts(data.model),
                "pretrained": {name: [row[name] for row in rows[1:]] for name in ("loss", "tokens")},
                "devices": [[t.where.kind, t.where.devices, t.where.replicas] for t in (one, data, model)],
                "probabilities": float(np.sum(keras.ops.convert_to_numpy(answers[1]))),
            }
        )
    )


if __name__ == "__main__":
    main()
