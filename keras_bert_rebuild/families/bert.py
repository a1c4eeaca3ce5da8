"""BERT: learned positions and segments, post-norm blocks; the names in its checkpoints and configs, its released sizes.

Reference: Devlin et al., 2019 (https://arxiv.org/abs/1810.04805); names as in google-research/bert and in Hugging Face's files.
"""

from keras_bert_rebuild.checkpoints.table import NameTable, Naming, tied, under
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.skeleton import PYTORCH, SPELLINGS, shared_heads

# Hugging Face's name of the family, and the prefix of its class names.
MODEL_TYPES = {"bert": "Bert"}

# Hugging Face's `model_type` to the defaults of its config class that differ from `DEFAULTS`, for keys missing in config.json.
CLASS_DEFAULTS: dict = {"bert": {"hidden_act": "gelu_erf"}}

# Field of `BertConfig` and key of Hugging Face's config.json.
CONFIG = ours.same(
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act"),
    *("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "max_position_embeddings", "type_vocab_size"),
    *("initializer_range", "layer_norm_eps", "pad_token_id"),
)

# Keys of config.json and the values they must have; other values mean another architecture.
FIXED: tuple = (
    ("is_decoder", False),
    ("add_cross_attention", False),
    ("position_embedding_type", "absolute"),
)

# Names of our modules in Hugging Face files, those of the encoder without the prefix "bert."; {layer} counts from 0.
EMBEDDINGS = {
    ours.TOKEN: "embeddings.word_embeddings",
    ours.SEGMENT: "embeddings.token_type_embeddings",
    ours.POSITION: "embeddings.position_embeddings",
    ours.EMBEDDING_NORM: "embeddings.LayerNorm",
}
BLOCK = under(
    "encoder.layer.{layer}.",
    {
        ours.QUERY: "attention.self.query",
        ours.KEY: "attention.self.key",
        ours.VALUE: "attention.self.value",
        ours.ATTENTION_OUTPUT: "attention.output.dense",
        ours.ATTENTION_NORM: "attention.output.LayerNorm",
        ours.INTERMEDIATE: "intermediate.dense",
        ours.OUTPUT: "output.dense",
        ours.OUTPUT_NORM: "output.LayerNorm",
    },
)
POOLED = {ours.POOLER: "pooler.dense"}
TRANSFORM = under("cls.predictions.transform.", {ours.MLM_DENSE: "dense", ours.MLM_NORM: "LayerNorm"})

HUGGINGFACE = PYTORCH.table(
    embeddings=under("bert.", EMBEDDINGS),
    block=under("bert.", BLOCK),
    heads={
        "pooler": under("bert.", POOLED),
        "mlm": {
            **TRANSFORM,
            ours.MLM_BIAS: "cls.predictions",
            tied(ours.MLM_BIAS): "cls.predictions.decoder",
            tied(ours.TOKEN): "cls.predictions.decoder",
        },
        "nsp": {**under("bert.", POOLED), ours.NSP: "cls.seq_relationship"},
        **shared_heads(under("bert.", POOLED)),
    },
    prefix="bert.",
    ignored=(r"(bert\.)?embeddings\.position_ids",),
    spellings=SPELLINGS,
)


# Hugging Face's names are derived from Google's, which have other separators and other names for two outputs.
def _google_names(names):
    endings = {"kernel": "/kernel", "bias": "/bias", "gamma": "/gamma", "beta": "/beta", "embeddings": ""}
    slashed = {module: name.replace("layer.{", "layer_{").replace(".", "/") for module, name in names.items()}
    return Naming(endings).rows(slashed)


OUTPUTS = Naming({"kernel": "output_weights", "bias": "output_bias"}, layouts={"kernel": "transposed"})

GOOGLE = NameTable(
    embeddings=_google_names(under("bert.", EMBEDDINGS)),
    block=_google_names(under("bert.", BLOCK)),
    heads={
        "pooler": _google_names(under("bert.", POOLED)),
        "mlm": _google_names(TRANSFORM) + OUTPUTS.rows({ours.MLM_BIAS: "cls/predictions/"}),
        "nsp": _google_names(under("bert.", POOLED)) + OUTPUTS.rows({ours.NSP: "cls/seq_relationship/"}),
        # As run_classifier.py and run_squad.py name them.
        "classification": _google_names(under("bert.", POOLED)) + OUTPUTS.rows({ours.CLASSIFICATION: ""}),
        "question_answering": OUTPUTS.rows({ours.QUESTION_ANSWERING: "cls/squad/"}),
    },
    prefix="bert/",
    ignored=(r".*/(adam|lamb)_[mv]", r"global_step", r"beta[12]_power", r"(good_steps|loss_scale)"),
)

# Name of a release, fields that differ from the defaults, and parameters of the encoder with its pooler.
SIZES: tuple = (
    ("bert-base-uncased", {}, 109_482_240),
    ("bert-base-cased", {"vocab_size": 28996}, 108_310_272),
    ("bert-base-chinese", {"vocab_size": 21128}, 102_267_648),
    ("bert-base-multilingual-cased", {"vocab_size": 119547}, 177_853_440),
    (
        "bert-large-uncased",
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
        335_141_888,
    ),
    (
        "bert-large-cased",
        {"vocab_size": 28996, "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
        333_579_264,
    ),
)
