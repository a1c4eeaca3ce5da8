"""Make the golden .h5 files of the default suite: models of keras_bert and transformers' TensorFlow classes, and their outputs.

Command: TF_KERAS=1 python tests/parity/make_golden_h5.py
    (Python 3.11 with tensorflow==2.15.1 keras-bert==0.89.0 transformers==4.40.2 "numpy<2", in a separate environment)
"""

from pathlib import Path

import keras_bert
import numpy as np
from transformers import BertConfig, TFBertForPreTraining, TFBertForSequenceClassification

GOLDEN = Path(__file__).parents[1] / "golden"
SIZES = {"vocab_size": 30, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12}


def main():
    folder = GOLDEN / "keras_bert"
    folder.mkdir(exist_ok=True)
    model = keras_bert.get_model(30, 10, 10, 8, 2, 2, 12, dropout_rate=0.1)
    model.save(folder / "model.h5")
    model.save_weights(folder / "weights.h5")
    ids = np.random.default_rng(0).integers(1, 30, (2, 10))
    masked = np.zeros_like(ids)
    masked[:, 3] = 1
    mlm, nsp = model.predict([ids, np.zeros_like(ids), masked], verbose=0)
    np.savez(folder / "golden_h5.npz", ids=ids, seg=np.zeros_like(ids), msk=masked, mlm=mlm, nsp=nsp)
    for name, model_class in (("tf_pretraining", TFBertForPreTraining), ("tf_classification", TFBertForSequenceClassification)):
        model = model_class(BertConfig(**SIZES, max_position_embeddings=20))
        ids = np.arange(1, 9)[None]
        outputs = model(ids)
        model.save_pretrained(GOLDEN / name)
        np.savez(GOLDEN / name / "golden_h5.npz", ids=ids, **{key: np.asarray(value) for key, value in outputs.items()})


if __name__ == "__main__":
    main()
