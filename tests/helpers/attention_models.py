"""Small models of other attention than BERT's, with random weights, and a tokenizer for them."""

from keras_bert_rebuild import WordPieceTokenizer, build_model
from keras_bert_rebuild.families.deberta_v2 import DebertaV2Config
from keras_bert_rebuild.families.modernbert import ModernBertConfig

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "mat", "dog", "ran", "."]
TEXT = "the cat sat on the mat . the dog ran ."
SIZES = {
    "vocab_size": len(WORDS), "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 3, "intermediate_size": 20,
    "max_position_embeddings": 40, "pad_token_id": 0,
}  # fmt: skip
CONFIGS = {
    "windows": ModernBertConfig(**SIZES, local_attention=6),
    "distances": DebertaV2Config(**SIZES, position_buckets=8, max_relative_positions=16),
}


def attention_model(kind, rng):
    """A model with windows of 6 and rotary positions, or with disentangled attention, and its tokenizer."""
    model = build_model(CONFIGS[kind])
    for weight in model.weights:
        weight.assign(rng.normal(0, 0.4, weight.shape).astype("float32"))
    return model, WordPieceTokenizer(WORDS)
