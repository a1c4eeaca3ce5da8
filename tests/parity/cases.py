"""Tiny models of transformers, with unusual configs, and inputs for them."""

import numpy as np
import torch
import transformers

BERT = {
    "vocab_size": 40,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 24,
}
ODD = {"hidden_act": "relu", "layer_norm_eps": 1e-5, "type_vocab_size": 3, "max_position_embeddings": 77}
DISTIL = {
    "vocab_size": 40,
    "dim": 12,
    "n_layers": 2,
    "n_heads": 3,
    "hidden_dim": 20,
    "max_position_embeddings": 24,
}
ROBERTA = {**BERT, "type_vocab_size": 1, "layer_norm_eps": 1e-5}
ALBERT = {**BERT, "embedding_size": 6, "num_hidden_layers": 4}
ELECTRA = {**BERT, "embedding_size": 6}

# Four layers, of which two see every token, and windows shorter than the text.
MODERN = {
    "vocab_size": 40,
    "hidden_size": 12,
    "num_hidden_layers": 4,
    "num_attention_heads": 3,
    "intermediate_size": 10,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "local_attention": 6,
}
BIASED = {"norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True, "decoder_bias": False}
ODD_MODERN = {**MODERN, **BIASED, "hidden_activation": "silu", "classifier_activation": "relu", "classifier_pooling": "mean"}

DEBERTA = {
    **BERT,
    "type_vocab_size": 0,
    "layer_norm_eps": 1e-7,
    "relative_attention": True,
    "position_buckets": 8,
    "pos_att_type": "p2c|c2p",
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "position_biased_input": False,
}
# Keys of its own for distances, the convolution of xlarge, added positions, segments.
DEBERTA_ODD = {
    **DEBERTA,
    "share_att_key": False,
    "conv_kernel_size": 3,
    "conv_act": "gelu",
    "position_biased_input": True,
    "type_vocab_size": 2,
    "hidden_act": "gelu_new",
}
# A row for each distance, fewer than the text is long, without their norm; narrow embedding tables.
DEBERTA_PLAIN = {**DEBERTA, "position_buckets": -1, "max_relative_positions": 6, "norm_rel_ebd": "none", "embedding_size": 6}

XLNET = {"vocab_size": 40, "d_model": 12, "n_layer": 2, "n_head": 3, "d_inner": 20}
XLNET_ODD = {**XLNET, "ff_activation": "gelu_new", "clamp_len": 4, "layer_norm_eps": 1e-5, "pad_token_id": 0, "n_head": 2}
# Rotary positions, the second with those that GTE's own code calls "ntk".
NOMIC = {**BERT, "hidden_size": 24}
GTE = {**BERT, "hidden_size": 24, "pad_token_id": 1}
SCALED = {"rope_parameters": {"rope_type": "linear", "factor": 1.7, "rope_theta": 77.0}}

# Name of a case, the prefix of "Config" and the rest of the class, the config.
CASES = {
    "bert": ("Bert", "Model", BERT),
    "bert_odd": ("Bert", "Model", {**BERT, **ODD}),
    "bert_pretraining": ("Bert", "ForPreTraining", {**BERT, "hidden_act": "gelu_new"}),
    "bert_pretraining_odd": ("Bert", "ForPreTraining", {**BERT, **ODD, "hidden_act": "silu"}),
    "bert_masked_lm": ("Bert", "ForMaskedLM", {**BERT, **ODD}),
    "bert_classification": ("Bert", "ForSequenceClassification", {**BERT, "num_labels": 3}),
    "bert_tokens": ("Bert", "ForTokenClassification", {**BERT, "num_labels": 5}),
    "bert_answers": ("Bert", "ForQuestionAnswering", BERT),
    "roberta": ("Roberta", "Model", ROBERTA),
    "roberta_masked_lm": ("Roberta", "ForMaskedLM", {**ROBERTA, "hidden_act": "relu"}),
    "roberta_classification": ("Roberta", "ForSequenceClassification", {**ROBERTA, "num_labels": 3}),
    "xlm_roberta_masked_lm": ("XLMRoberta", "ForMaskedLM", {**ROBERTA, "vocab_size": 60}),
    "distilbert": ("DistilBert", "Model", {**DISTIL, "activation": "relu"}),
    "distilbert_masked_lm": ("DistilBert", "ForMaskedLM", DISTIL),
    "distilbert_classification": ("DistilBert", "ForSequenceClassification", {**DISTIL, "num_labels": 4}),
    "albert": ("Albert", "Model", {**ALBERT, "hidden_act": "gelu"}),
    "albert_pretraining": ("Albert", "ForPreTraining", ALBERT),
    "modernbert": ("ModernBert", "Model", MODERN),
    "modernbert_masked_lm": ("ModernBert", "ForMaskedLM", {**MODERN, "local_attention": 128}),
    "modernbert_masked_lm_odd": ("ModernBert", "ForMaskedLM", ODD_MODERN),
    "modernbert_classification": ("ModernBert", "ForSequenceClassification", {**MODERN, "num_labels": 3}),
    "modernbert_classification_odd": ("ModernBert", "ForSequenceClassification", {**ODD_MODERN, "num_labels": 3}),
    "modernbert_tokens": ("ModernBert", "ForTokenClassification", {**MODERN, "layer_types": ["sliding_attention"] * 4}),
    "modernbert_answers": ("ModernBert", "ForQuestionAnswering", {**ODD_MODERN, "norm_eps": 1e-3}),
    "albert_groups": ("Albert", "ForMaskedLM", {**ALBERT, "num_hidden_groups": 2}),
    "electra": ("Electra", "Model", {**ELECTRA, "hidden_act": "gelu_new", "type_vocab_size": 3}),
    "electra_discriminator": ("Electra", "ForPreTraining", {**ELECTRA, **ODD}),
    "electra_generator": ("Electra", "ForMaskedLM", {**ELECTRA, **ODD, "embedding_size": 20}),
    "electra_classification": ("Electra", "ForSequenceClassification", {**ELECTRA, "num_labels": 3, "embedding_size": 12}),
    "deberta": ("DebertaV2", "Model", DEBERTA),
    "deberta_odd": ("DebertaV2", "Model", DEBERTA_ODD),
    "deberta_plain": ("DebertaV2", "ForMaskedLM", DEBERTA_PLAIN),
    "deberta_masked_lm": ("DebertaV2", "ForMaskedLM", {**DEBERTA, "legacy": False, "pos_att_type": ["c2p"]}),
    "deberta_classification": (
        "DebertaV2",
        "ForSequenceClassification",
        {**DEBERTA_ODD, "pos_att_type": ["p2c"], "conv_act": "tanh", "num_labels": 3},
    ),
    "deberta_without_distances": (
        "DebertaV2",
        "ForQuestionAnswering",
        {**DEBERTA_ODD, "relative_attention": False, "pos_att_type": None, "norm_rel_ebd": "none"},
    ),
    "nomic": ("NomicBert", "Model", NOMIC),
    "nomic_masked_lm": ("NomicBert", "ForMaskedLM", {**NOMIC, **ODD, **SCALED}),
    "nomic_classification": ("NomicBert", "ForSequenceClassification", {**NOMIC, "num_labels": 3}),
    "gte": ("Gte", "Model", {**GTE, **SCALED}),
    "gte_masked_lm": ("Gte", "ForMaskedLM", {**GTE, "type_vocab_size": 0}),
    "gte_tokens": ("Gte", "ForTokenClassification", {**GTE, **ODD, "num_labels": 5}),
}

CASES |= {
    "xlnet": ("XLNet", "Model", XLNET),
    "xlnet_odd": ("XLNet", "Model", XLNET_ODD),
    "xlnet_lm": ("XLNet", "LMHeadModel", {**XLNET, "mem_len": None}),
    "xlnet_classification": ("XLNet", "ForSequenceClassification", {**XLNET_ODD, "summary_activation": "gelu", "num_labels": 3}),
    "xlnet_answers": ("XLNet", "ForQuestionAnsweringSimple", XLNET),
}


# The prefix of "Config" and the rest of the class, a config; the classes of every family, and those of some.
FAMILIES = {
    "Bert": BERT,
    "Roberta": ROBERTA,
    "XLMRoberta": ROBERTA,
    "Camembert": ROBERTA,
    "DistilBert": DISTIL,
    "Albert": ALBERT,
    "ModernBert": MODERN,
    "Electra": ELECTRA,
    "DebertaV2": DEBERTA,
    "XLNet": XLNET,
    "NomicBert": NOMIC,
    "Gte": GTE,
}
KINDS = (
    "Model",
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForMultipleChoice",
)
NAMES = {("XLNet", "ForMaskedLM"): "LMHeadModel", ("XLNet", "ForQuestionAnswering"): "ForQuestionAnsweringSimple"}
PAIRS = [
    *(
        (family, NAMES.get((family, kind), kind))
        for family in FAMILIES
        for kind in KINDS
        if hasattr(transformers, family + NAMES.get((family, kind), kind))
    ),
    ("Bert", "ForPreTraining"),
    ("Bert", "ForNextSentencePrediction"),
    ("Albert", "ForPreTraining"),
    ("Electra", "ForPreTraining"),
]


def make_model(case):
    """The model of a case, see `random_model`."""
    return random_model(*CASES[case])


def random_model(family, kind, config):
    """A model with every weight different from its initial value, so that no bias is zero and no gamma is one."""
    torch.manual_seed(7)
    model = getattr(transformers, family + kind)(getattr(transformers, f"{family}Config")(**config)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(torch.randn_like(weight) * 0.3 + (1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0))
    model.tie_weights()
    return model


def make_inputs(model):
    """Ids and segments of three lengths, padded to the longest, for XLNet in front."""
    rng, config = np.random.default_rng(3), model.config
    ids = np.full((3, 17), config.pad_token_id, "int64")
    for row, length in zip(ids, (17, 5, 11), strict=True):
        row[:length] = rng.integers(3, config.vocab_size, length)
    if is_xlnet(config):
        ids = np.stack([np.concatenate([row[row == config.pad_token_id], row[row != config.pad_token_id]]) for row in ids])
    segments = rng.integers(0, segments_of(config) or 1, ids.shape) * (ids != config.pad_token_id)
    return ids, segments


def is_xlnet(config):
    return config.model_type == "xlnet"


def segments_of(config):
    """The segments that the model of a config tells apart; 0 for a model without."""
    return 3 if is_xlnet(config) else getattr(config, "type_vocab_size", 0)


def outputs_of(model, ids, segments):
    """The outputs of the model by name; probabilities where ours gives probabilities."""
    inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor((ids != model.config.pad_token_id).astype("int64"))}
    if segments_of(model.config):
        inputs["token_type_ids"] = torch.tensor(segments)
    if "MultipleChoice" in type(model).__name__:  # the rows are the choices of one question
        inputs = {name: value[None] for name, value in inputs.items()}
    with torch.no_grad():
        outputs = model(**inputs)
    arrays = {name: value.numpy() for name, value in outputs.items() if name != "mems"}
    if "last_hidden_state" in arrays:
        return [arrays[name] for name in ("last_hidden_state", "pooler_output") if name in arrays]
    if "prediction_logits" in arrays:
        pair = arrays["seq_relationship_logits"] if "seq_relationship_logits" in arrays else arrays["sop_logits"]
        return [softmax(arrays["prediction_logits"]), softmax(pair)]
    if "start_logits" in arrays:
        return [np.stack([arrays["start_logits"], arrays["end_logits"]], -1)]
    logits = arrays["logits"]
    if type(model).__name__ == "ElectraForPreTraining":
        return [logits[..., None]]
    if "MultipleChoice" in type(model).__name__:
        return [logits[0][:, None]]
    if "NextSentence" in type(model).__name__:
        return [softmax(logits)]
    return [softmax(logits) if type(model).__name__.endswith(("MaskedLM", "LMHeadModel")) else logits]


def softmax(x):
    exponentials = np.exp(x - x.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)
