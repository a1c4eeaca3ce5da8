"""A checkpoint of Google's layout with random weights, for programs that load one."""

import keras
import numpy as np

from keras_bert_rebuild import get_base_dict, get_model, save_pretrained

WORDS = [*"abcdefghijklmnopqrstuvwxyz", *"0123456789", ",", ".", "语", "言", "模", "型", "all", "work", "play", "##s", "##ed"]


def write_toy_checkpoint(folder, seed=7):
    """Write bert_config.json, bert_model.ckpt and vocab.txt; returns the dictionary from token to id."""
    token_dict = {token or "[PAD]": i for token, i in get_base_dict().items()}
    for word in ["[unused1]", *WORDS]:
        token_dict[word] = len(token_dict)
    keras.utils.set_random_seed(seed)
    model = get_model(
        token_num=len(token_dict), pos_num=32, seq_len=32, embed_dim=24, transformer_num=2, head_num=3, feed_forward_dim=48
    )
    rng = np.random.default_rng(seed)
    for variable in model.weights:
        if variable.path.endswith(("kernel", "embeddings")):
            variable.assign(rng.normal(0, 0.2, variable.shape).astype("float32"))
    save_pretrained(model, folder, "google", vocabulary=token_dict)
    return token_dict
