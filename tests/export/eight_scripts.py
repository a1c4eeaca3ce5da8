"""Texts in eight scripts and more, a small model with a vocabulary for them, and its own outputs."""

import keras
import numpy as np
from helpers.small import small_model, spread

from keras_bert_rebuild import BertConfig, BertModel, WordPieceTokenizer, build_model

TEXTS = [
    "All human beings are born free and equal in dignity and rights.",
    "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "人人生而自由，在尊严和权利上一律平等。",
    "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता प्राप्त है।",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์",
    "すべての人間は、生まれながらにして自由であり、",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια.",
    "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם.",
    "모든 인간은 태어날 때부터 자유로우며",
    "",
    " \t\n",
    "naïve café ½ ﬁne Ａ™ ß",
    "x" * 300 + " " + "y" * 200,
    "word " * 20_000,
]


def vocabulary():
    """The characters of the texts as pieces, alone and inside of words."""
    characters = sorted({char for text in TEXTS for char in text.lower() if not char.isspace()} - {"½"})
    return ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *characters, *(f"##{char}" for char in characters), "word"]


def small_export(rng, heads=(), padding_mask=False, **changes):
    """A small model of 40 positions with these heads, and its tokenizer."""
    tokens = vocabulary()
    config = BertConfig(
        vocab_size=len(tokens),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
        labels=("bad", "good", "neither") if {"classification", "token_classification"} & set(heads) else (),
        **changes,
    )
    return spread(build_model(config, heads, padding_mask=padding_mask), rng), WordPieceTokenizer(tokens)


def static_export(rng):
    """A model like keras_bert's, with a static length."""
    tokens = vocabulary()
    built = small_model(training=False, token_num=len(tokens), pos_num=40, seq_len=40)
    return spread(BertModel(*built), rng), WordPieceTokenizer(tokens)


def answers(model, tokenizer, texts, pairs=None):
    """The outputs of the model itself, a single output as a list of one, padded to the longest."""
    encoded = tokenizer.encode_batch(texts, pairs, max_len=40, pad_to="longest")
    columns = {"Input-Token": encoded.ids, "Input-Segment": encoded.segments, "Input-Mask": encoded.mask}
    inputs = [columns.get(tensor.name, encoded.ids * 0) for tensor in model.inputs]
    if model.inputs[0].shape[1] is not None:
        inputs = [np.pad(column, ((0, 0), (0, model.inputs[0].shape[1] - column.shape[1]))) for column in inputs]
    outputs = model(inputs if len(inputs) > 1 else inputs[0])
    outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
    return encoded, [keras.ops.convert_to_numpy(output) for output in outputs]
