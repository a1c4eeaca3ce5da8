"""A family that differs from BERT in everything that a family can differ in, in one file.

Blocks normalise before they add, feed-forward parts are gated, positions are rotary, every second block sees a window, only heads
have biases, and in files queries, keys and values are one array, as are the halves of a gate.
"""

import functools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from keras_bert_rebuild import BertConfig
from keras_bert_rebuild.anatomy.encoder import Attention, Block, Embedding, Encoder, FeedForward, Norm, Positions
from keras_bert_rebuild.anatomy.heads import HEADS
from keras_bert_rebuild.checkpoints.table import dense, fused, norm, tied, under
from keras_bert_rebuild.families import bert
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.skeleton import PYTORCH, shared_heads


@dataclass(frozen=True, kw_only=True)
class ToyConfig(BertConfig, families=("gated_toy",)):
    """BERT's fields, and the toy's own."""

    rope_theta: float = 100.0
    local_attention: int = 4
    type_vocab_size: int = 0

    def encoder(self) -> Encoder:
        width, norm_ = self.hidden_size, Norm(self.layer_norm_eps, bias=False)
        positions = Positions("rotary", self.max_position_embeddings, theta=self.rope_theta)
        return Encoder(
            width=width,
            embedding=Embedding(self.vocab_size, width, norm_, positions, self.pad_token_id, dropout=self.hidden_dropout_prob),
            blocks=tuple(self._block(number, norm_, positions) for number in range(1, self.num_hidden_layers + 1)),
            heads=HEADS,
            final_norm=norm_,
            labels=len(self.labels),
            initializer_range=self.initializer_range,
            mlm_activation=self.hidden_act,
            pooler_activation=self.pooler_act,
        )

    def _block(self, number, norm_, positions):
        window = self.local_attention // 2 if number % 2 == 0 else None
        attention = Attention(self.num_attention_heads, bias=False, rotary=positions, window=window)
        return Block(
            number,
            attention,
            FeedForward(self.intermediate_size, self.hidden_act, gated=True, bias=False),
            norm_,
            order="pre",
            dropout=self.hidden_dropout_prob,
            first_norm=number > 1,
        )


_norm = functools.partial(norm, bias=False)


def _attention(*names):
    return [dense(f"Encoder-{{block}}-MultiHeadSelfAttention/{name}", bias=False) for name in names]


def _feed_forward(*names):
    return [dense(f"Encoder-{{block}}-FeedForward/{name}", bias=False) for name in names]


HUGGINGFACE: Any = PYTORCH.table(
    embeddings=under(
        "toy.", {ours.TOKEN: "tok", norm("Embedding-Norm", bias=False): "norm", norm("Encoder-Norm", bias=False): "last"}
    ),
    block=under(
        "toy.layers.{layer}.",
        {
            _norm("Encoder-{block}-MultiHeadSelfAttention-Norm"): "attn_norm",
            fused(*_attention("query", "key", "value")): "attn.Wqkv",
            _attention("output")[0]: "attn.Wo",
            _norm("Encoder-{block}-FeedForward-Norm"): "mlp_norm",
            fused(*_feed_forward("gate", "intermediate")): "mlp.Wi",
            _feed_forward("output")[0]: "mlp.Wo",
        },
    ),
    heads={
        "mlm": {
            ours.MLM_DENSE: "head.dense",
            norm("MLM-Norm", bias=False): "head.norm",
            ours.MLM_BIAS: "decoder",
            tied(ours.TOKEN): "decoder",
        },
        "pooler": {ours.POOLER: "pooler"},
        **shared_heads({ours.POOLER: "pooler"}),
    },
    prefix="toy.",
)

TOY = SimpleNamespace(
    FIXED=bert.FIXED,
    CONFIG=(*bert.CONFIG, ("rope_theta", "rope_theta"), ("local_attention", "local_attention")),
    MODEL_TYPES={"gated_toy": "GatedToy"},
    CLASS_DEFAULTS={"gated_toy": {}},
    HUGGINGFACE=HUGGINGFACE,
)
