"""Pretrain on three pairs of sentences until the masked words are right.

Command: python examples/02_toy_sentences.py
Time: half a minute
Expected output: progress bars, then

    masked words right: at least 90 %, next sentence right: at least 90 %
"""

import keras
import numpy as np

from keras_bert_rebuild import compile_model, gen_batch_inputs, get_base_dict, get_model

PAIRS = [
    ("the early bird catches the worm", "and the late one sleeps"),
    ("many hands make light work", "but two cooks spoil soup"),
    ("a rolling stone", "gathers no moss at all"),
]


def main():
    keras.utils.set_random_seed(5)
    pairs = [[first.split(), second.split()] for first, second in PAIRS]
    tokens = get_base_dict()
    for word in " ".join(first + " " + second for first, second in PAIRS).split():
        tokens.setdefault(word, len(tokens))

    model = get_model(
        len(tokens), seq_len=20, pos_num=20, head_num=4, transformer_num=2, embed_dim=24, feed_forward_dim=96, dropout_rate=0.05
    )
    compile_model(model, learning_rate=3e-3, decay_steps=3000, warmup_steps=50, max_predictions=12)

    def batch(count):
        return gen_batch_inputs(pairs * count, tokens, list(tokens), seq_len=20, mask_rate=0.25, swap_sentence_rate=1.0)

    model.fit((batch(4) for _ in range(600)), steps_per_epoch=600, verbose=2)

    inputs, (words, is_random) = batch(40)
    mlm, nsp = model.predict(inputs, verbose=0)
    right = (mlm.argmax(-1) == words[..., 0])[inputs[2] == 1].mean()
    next_right = (nsp.argmax(-1) == is_random[:, 0]).mean()
    print(f"    masked words right: {right:.0%}, next sentence right: {next_right:.0%}")
    return float(np.minimum(right, next_right))


if __name__ == "__main__":
    main()
