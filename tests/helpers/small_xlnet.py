"""Configs of small XLNets."""

from keras_bert_rebuild.families.xlnet import XLNetConfig

CONFIG = XLNetConfig(
    vocab_size=31,
    hidden_size=12,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=20,
    max_position_embeddings=24,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    classifier_dropout=0.0,
    labels=("a", "b"),
)
ODD = CONFIG.replace(clamp_len=4, hidden_act="gelu", num_attention_heads=2, pad_token_id=0, mem_len=7, reuse_len=3)
PAD = 5
