"""DeBERTa, versions 2 and 3: disentangled attention, which also compares tokens with distances, instead of added positions.

Reference: He et al., 2021 (https://arxiv.org/abs/2006.03654); He et al., 2023 (https://arxiv.org/abs/2111.09543), for version 3;
names as in Hugging Face's files.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from keras_bert_rebuild.anatomy.encoder import Attention, Convolution, Encoder, Norm, Positions, bert_encoder
from keras_bert_rebuild.checkpoints.table import dense, embedding, norm, tied, under
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.families import bert
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.skeleton import PYTORCH, SPELLINGS, shared_heads
from keras_bert_rebuild.layers.disentangled_self_attention import TERMS, check_distances

MODEL_TYPES = {"deberta-v2": "DebertaV2"}


@dataclass(frozen=True, kw_only=True)
class DebertaV2Config(BertConfig, families=("deberta-v2",)):
    """The fields of BERT, and those of DeBERTa under their names in `config.json`. The defaults are DeBERTa-v3-base."""

    family: str = "deberta-v2"
    vocab_size: int = 128100
    type_vocab_size: int = 0
    hidden_act: object = "gelu_erf"
    pooler_act: object = "gelu_erf"
    layer_norm_eps: float = 1e-7

    relative_attention: bool = True
    """Whether attention has terms for distances."""

    position_buckets: int = 256
    """Number of log buckets for distances on either side; below 1 for a row per distance."""

    max_relative_positions: int = -1
    """The distance beyond which distances are clipped; below 1 for `max_position_embeddings`."""

    pos_att_type: Sequence[str] | None = ("p2c", "c2p")
    """Terms added to the content scores: content to position, "c2p", and position to content, "p2c"; "p2c|c2p" in files. None for
    no terms."""

    share_att_key: bool = True
    """Whether distances share the projections of queries and keys."""

    norm_rel_ebd: str = "layer_norm"
    """The norm of the table of distances: "layer_norm" or "none"."""

    position_biased_input: bool = False
    """Whether position vectors are added to the embedding, as in BERT."""

    conv_kernel_size: int = 0
    """Kernel size of the convolution parallel to the first block, in tokens; 0 for none."""

    conv_act: object = "tanh"
    """Its activation."""

    legacy: bool = True
    """Which names the MLM head has in files: True for `cls.predictions`, False for `lm_predictions.lm_head`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        terms = self.pos_att_type or ()
        terms = [term.strip() for term in terms.lower().split("|")] if isinstance(terms, str) else terms
        object.__setattr__(self, "pos_att_type", tuple(terms) or None)
        if self.embedding_size == self.hidden_size:  # then there is no projection
            object.__setattr__(self, "embedding_size", None)
        problem = self._problem()
        if problem:
            raise ValueError(f"{problem}.")
        if self.relative_attention:
            check_distances(self._buckets, self._reach)

    def _problem(self):
        """What is wrong with the config; None if nothing is."""
        for name in ("relative_attention", "share_att_key", "position_biased_input", "legacy"):
            if not isinstance(getattr(self, name), bool):
                return f"{name} must be True or False; got {getattr(self, name)!r:.80}"
        for name in ("position_buckets", "max_relative_positions", "conv_kernel_size"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value > 1 << 20:
                return f"{name} must be a whole number of at most {1 << 20}; got {value!r:.80}"
        terms = self.pos_att_type or ()
        if any(term not in TERMS for term in terms) or len(set(terms)) < len(terms):
            return f"pos_att_type must consist of {' and '.join(TERMS)}; got {', '.join(map(str, terms)):.80}"
        if self.relative_attention != bool(terms):
            return "relative_attention and pos_att_type must be given together, since neither works alone; got one of them"
        norms = ("layer_norm", "none") if self.relative_attention else ("none",)
        if self.norm_rel_ebd not in norms:
            without = "" if self.relative_attention else " without relative_attention"
            return f"norm_rel_ebd must be {' or '.join(norms)}{without}; got {self.norm_rel_ebd!r:.80}"
        if self.conv_kernel_size > 0 and self.conv_kernel_size % 2 == 0:
            return f"conv_kernel_size must be odd, so that the convolution preserves the length; got {self.conv_kernel_size}"
        if not isinstance(self.conv_act, str) and not callable(self.conv_act):
            return f"conv_act must be the name of an activation or a function; got {self.conv_act!r:.80}"
        if not self.legacy and self.embedding_size is not None:
            return "legacy must be True if embedding_size differs from hidden_size, which the other MLM head does not support; got False"
        if self.num_hidden_groups is not None:
            return f"num_hidden_groups must be None, since DeBERTa's blocks share no weights; got {self.num_hidden_groups}"
        return None

    @property
    def _buckets(self):
        return max(self.position_buckets, 0)

    @property
    def _reach(self):
        return self.max_relative_positions if self.max_relative_positions > 0 else self.max_position_embeddings

    def encoder(self) -> Encoder:
        encoder, relative = bert_encoder(self), None
        if self.relative_attention:
            relative = Positions(
                "disentangled",
                rows=2 * (self._buckets or self._reach),
                reach=self._reach,
                buckets=self._buckets,
                terms=tuple(sorted(self.pos_att_type or ())),
                shared_keys=self.share_att_key,
                norm=Norm(self.layer_norm_eps) if self.norm_rel_ebd == "layer_norm" else None,
            )
        attention = Attention(self.num_attention_heads, self.attention_act, self.attention_probs_dropout_prob, relative=relative)
        blocks = [replace(block, attention=attention) for block in encoder.blocks]
        if self.conv_kernel_size > 0 and blocks:
            blocks[0] = replace(blocks[0], convolution=Convolution(self.conv_kernel_size, self.hidden_size, self.conv_act))
        embedding = replace(encoder.embedding, widened_first=encoder.embedding.widened)
        if not self.position_biased_input:
            embedding = replace(embedding, positions=Positions("none", self.max_position_embeddings))
        return replace(encoder, embedding=embedding, blocks=tuple(blocks), relative=relative if blocks else None)


# The sizes of DeBERTa-v3-base are the defaults of the class.

# Hugging Face's class has no relative attention by default.
CLASS_DEFAULTS: dict = {
    "deberta-v2": {
        "hidden_size": 1536,
        "num_hidden_layers": 24,
        "num_attention_heads": 24,
        "intermediate_size": 6144,
        "relative_attention": False,
        "position_buckets": -1,
        "pos_att_type": (),
        "share_att_key": False,
        "norm_rel_ebd": "none",
        "position_biased_input": True,
    },
}

CONFIG = (
    *((field, key) for field, key in bert.CONFIG if field != "classifier_dropout"),
    ("classifier_dropout", "cls_dropout"),
    ("pooler_act", "pooler_hidden_act"),
    *ours.same("embedding_size", "relative_attention", "position_buckets", "max_relative_positions", "pos_att_type"),
    *ours.same("share_att_key", "norm_rel_ebd", "position_biased_input", "conv_kernel_size", "conv_act", "legacy"),
)
FIXED: tuple = (
    ("is_decoder", False),
    ("add_cross_attention", False),
    ("pruned_heads", {}),
    ("pooler_dropout", 0),
    ("conv_groups", 1),
    ("talking_head", False),
)


def problem_of(values: Mapping[str, Any]) -> str | None:
    """Why a `config.json` describes another architecture, if no field covers that; None if it does not."""
    hidden, heads = (values.get(key, default) for key, default in (("hidden_size", 1536), ("num_attention_heads", 24)))
    if values.get("pooler_hidden_size", hidden) not in (hidden, None):
        return f"pooler_hidden_size must be hidden_size={hidden!r:.20}; got {values['pooler_hidden_size']!r:.80}"
    width = values.get("attention_head_size")
    if isinstance(width, int) and isinstance(heads, int) and width * heads != hidden:
        return f"attention_head_size must be hidden_size / num_attention_heads; got {width} for {hidden!r:.20} and {heads}"
    return None


RELATIVE = embedding("Embedding-Relative")
RELATIVE_NORM = norm("Embedding-Relative-Norm")
PROJECTION = dense("Embedding-Mapping", bias=False)
CONVOLUTION = dense("Encoder-1-Convolution")
CONVOLUTION_NORM = norm("Encoder-1-Convolution-Norm")
POSITION_KEY = dense("Encoder-{block}-MultiHeadSelfAttention/position_key")
POSITION_QUERY = dense("Encoder-{block}-MultiHeadSelfAttention/position_query")

EMBEDDINGS = {
    **bert.EMBEDDINGS,
    PROJECTION: "embeddings.embed_proj",
    RELATIVE: "encoder.rel_embeddings",
    RELATIVE_NORM: "encoder.LayerNorm",
    CONVOLUTION: "encoder.conv.conv",
    CONVOLUTION_NORM: "encoder.conv.LayerNorm",
}
BLOCK = {
    **bert.BLOCK,
    **under(
        "encoder.layer.{layer}.attention.self.",
        {
            ours.QUERY: "query_proj",
            ours.KEY: "key_proj",
            ours.VALUE: "value_proj",
            POSITION_KEY: "pos_key_proj",
            POSITION_QUERY: "pos_query_proj",
        },
    ),
}
LEGACY = {**bert.TRANSFORM, ours.MLM_BIAS: "cls.predictions"}
LEGACY |= {tied(ours.MLM_BIAS): "cls.predictions.decoder", tied(ours.TOKEN): "cls.predictions.decoder"}
NEW = under("lm_predictions.lm_head.", {ours.MLM_DENSE: "dense", ours.MLM_NORM: "LayerNorm"})
NEW |= {ours.MLM_BIAS: "lm_predictions.lm_head"}

# A second pretraining head of version 3, and a table that older files have although their config adds no positions.
_UNREAD = (r"mask_predictions\..*", r"(deberta\.)?embeddings\.position_ids")
_POSITIONS = r"(deberta\.)?embeddings\.position_embeddings\.weight"


def _table(mlm, ignored):
    return PYTORCH.table(
        embeddings=under("deberta.", EMBEDDINGS),
        block=under("deberta.", BLOCK),
        heads={"mlm": mlm, **shared_heads({ours.POOLER: "pooler.dense"})},
        prefix="deberta.",
        ignored=ignored,
        spellings=SPELLINGS,
    )


HUGGINGFACE = _table(LEGACY, _UNREAD)


def table_of(config: DebertaV2Config) -> Any:
    """The `NameTable` of a config: with the names of its MLM head, and with a position table only if it adds positions."""
    return _table(LEGACY if config.legacy else NEW, _UNREAD if config.position_biased_input else (*_UNREAD, _POSITIONS))


def fitted(config: DebertaV2Config, names: Sequence[str]) -> DebertaV2Config:
    """The config with the MLM head that the file has: the config.json of released files does not say which one it is."""
    new, old = (any(name.startswith(prefix) for name in names) for prefix in ("lm_predictions.", "cls.predictions."))
    return config if new == old else config.replace(legacy=old)


_V2 = {"layer_norm_eps": 1e-7, "conv_kernel_size": 3, "conv_act": "gelu_erf"}
_V2 |= {"hidden_size": 1536, "num_attention_heads": 24, "intermediate_size": 6144}

# Parameters of the encoder, which has no pooler.
SIZES: tuple = (
    ("deberta-v3-base", {}, 183_831_552),
    (
        "deberta-v3-large",
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
        434_012_160,
    ),
    ("deberta-v3-small", {"num_hidden_layers": 6}, 141_304_320),
    ("deberta-v3-xsmall", {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}, 70_682_112),
    ("mdeberta-v3-base", {"vocab_size": 251000}, 278_218_752),
    ("deberta-v2-xlarge", {**_V2, "num_hidden_layers": 24}, 884_593_152),
    ("deberta-v2-xxlarge", {**_V2, "num_hidden_layers": 48}, 1_564_549_632),
)
