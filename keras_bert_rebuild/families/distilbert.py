"""DistilBERT: six blocks, no segments, no pooler.

Reference: Sanh et al., 2019 (https://arxiv.org/abs/1910.01108); names as in Hugging Face's files.
"""

from keras_bert_rebuild.checkpoints.table import tied, under
from keras_bert_rebuild.families import bert
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.skeleton import PYTORCH, SPELLINGS, shared_heads

MODEL_TYPES = {"distilbert": "DistilBert"}

DEFAULTS: dict = {"num_hidden_layers": 6, "type_vocab_size": 0, "pooler_act": "relu"}
CLASS_DEFAULTS: dict = {"distilbert": {"hidden_act": "gelu_erf", "classifier_dropout": 0.2}}

CONFIG = (
    ("vocab_size", "vocab_size"),
    ("hidden_size", "dim"),
    ("num_hidden_layers", "n_layers"),
    ("num_attention_heads", "n_heads"),
    ("intermediate_size", "hidden_dim"),
    ("hidden_act", "activation"),
    ("hidden_dropout_prob", "dropout"),
    ("attention_probs_dropout_prob", "attention_dropout"),
    ("classifier_dropout", "seq_classif_dropout"),
    ("max_position_embeddings", "max_position_embeddings"),
    ("initializer_range", "initializer_range"),
    ("pad_token_id", "pad_token_id"),
)
ALIASES: tuple = ours.same("hidden_size", "num_hidden_layers", "num_attention_heads")

EMBEDDINGS = {module: name for module, name in bert.EMBEDDINGS.items() if module is not ours.SEGMENT}
BLOCK = {
    ours.QUERY: "attention.q_lin",
    ours.KEY: "attention.k_lin",
    ours.VALUE: "attention.v_lin",
    ours.ATTENTION_OUTPUT: "attention.out_lin",
    ours.ATTENTION_NORM: "sa_layer_norm",
    ours.INTERMEDIATE: "ffn.lin1",
    ours.OUTPUT: "ffn.lin2",
    ours.OUTPUT_NORM: "output_layer_norm",
}

HUGGINGFACE = PYTORCH.table(
    embeddings=under("distilbert.", EMBEDDINGS),
    block=under("distilbert.transformer.layer.{layer}.", BLOCK),
    heads={
        "mlm": {
            ours.MLM_DENSE: "vocab_transform",
            ours.MLM_NORM: "vocab_layer_norm",
            ours.MLM_BIAS: "vocab_projector",
            tied(ours.TOKEN): "vocab_projector",
        },
        **shared_heads({ours.POOLER: "pre_classifier"}),
    },
    prefix="distilbert.",
    ignored=(r"(distilbert\.)?embeddings\.position_ids",),
    spellings=SPELLINGS,
)

SIZES: tuple = (
    ("distilbert-base-uncased", {}, 66_362_880),
    ("distilbert-base-multilingual-cased", {"vocab_size": 119547}, 134_734_080),
)
