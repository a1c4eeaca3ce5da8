"""The files that make a folder of an encoder one of sentence-transformers: mean over tokens, vectors 1 long."""

import json

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]


def sentence_files(width, max_len):
    """modules.json and what it names, to lie beside the weights: name to bytes.

    Args:
        width: numbers of a vector.
        max_len: tokens of a text at the most.
    """
    pooling = {
        "word_embedding_dimension": width,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }
    files = {
        "1_Pooling/config.json": pooling,
        "sentence_bert_config.json": {"max_seq_length": max_len, "do_lower_case": False},
        "modules.json": MODULES,
    }
    return {name: (json.dumps(values, indent=2) + "\n").encode() for name, values in files.items()}
