"""XLNet: relative attention with sinusoidal distances and segment terms, each with a learned bias; the class token comes last.

Reference: Yang et al., 2019 (https://arxiv.org/abs/1906.08237); Dai et al., 2019 (https://arxiv.org/abs/1901.02860), for the
attention; names as in Hugging Face's files and in zihangdai/xlnet.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from keras_bert_rebuild.anatomy.encoder import Attention, Encoder, FeedForward, Positions, bert_encoder
from keras_bert_rebuild.anatomy.heads import heads_at_last_token
from keras_bert_rebuild.checkpoints.table import Module, NameTable, Naming, dense, tied, under
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.families import skeleton as ours
from keras_bert_rebuild.families.skeleton import PYTORCH
from keras_bert_rebuild.layers.relative_self_attention import RELATIVE_BIASES


@dataclass(frozen=True, kw_only=True)
class XLNetConfig(BertConfig, families=("xlnet",)):
    """The fields of BERT, and those of XLNet under their names in `config.json`. The defaults are XLNet-large.

    The model is the content stream with full attention, as in fine-tuning. Segments are only compared with each other, so their ids
    may be any integers; the tokenizer gives 0 and 1 to the texts and 2 to the class token.

    In training, `classifier_dropout` is the only dropout before the last layer of a head; transformers also applies dropout to the
    output of the last block.
    """

    family: str = "xlnet"
    vocab_size: int = 32000
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    hidden_act: object = "gelu_erf"
    classifier_dropout: float | None = 0.1
    pad_token_id: int = 5

    type_vocab_size: int = 3
    """Number of segments of the tokenizer: two texts and the class token. There is no segment table."""

    max_position_embeddings: int = 512
    """Number of tokens that texts are truncated to. No weight depends on it: without `seq_len`, a model takes any length."""

    clamp_len: int = -1
    """The distance beyond which distances are clipped; below 1 for no limit."""

    mem_len: int | None = 512
    """Number of tokens whose vectors `run_with_memories` caches for the next segment of a text; None or 0 for all. It does not
    affect calls of the model, which have no memories."""

    reuse_len: int | None = None
    """Number of tokens of a segment that may be cached; None or 0 for all."""

    use_mems_eval: bool = True
    """Whether other libraries return memories in inference."""

    use_mems_train: bool = False
    """Whether other libraries return memories in training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mem_len is None:  # one spelling of no limit
            object.__setattr__(self, "mem_len", 0)
        problem = self._problem()
        if problem:
            raise ValueError(f"{problem}.")

    def _problem(self):
        """What is wrong with the config; None if nothing is."""
        for name in ("use_mems_eval", "use_mems_train"):
            if not isinstance(getattr(self, name), bool):
                return f"{name} must be True or False; got {getattr(self, name)!r:.80}"
        for name, least in (("clamp_len", -1), ("mem_len", 0), ("reuse_len", 0)):
            value = getattr(self, name)
            if value is None and name == "reuse_len":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= 1 << 20:
                return f"{name} must be a whole number from {least} to {1 << 20}; got {value!r:.80}"
        fixed = {
            "type_vocab_size": 3,
            "position_offset": 0,
            "embedding_size": None,
            "num_hidden_groups": None,
            "attention_act": None,
        }
        for name, value in fixed.items():
            if getattr(self, name) != value:
                return f"{name} must be {value}, the only value for XLNet; got {getattr(self, name)!r:.80}"
        if self.hidden_size % 2:
            return f"hidden_size must be even, half for sines and half for cosines of distances; got {self.hidden_size}"
        return None

    def encoder(self) -> Encoder:
        """The anatomy: BERT's, with the differences."""
        bert = bert_encoder(self)
        relative = Positions(
            "relative",
            rows=self.max_position_embeddings,
            reach=max(self.clamp_len, 0),
            memory=self.mem_len or 0,
            reused=self.reuse_len or 0,
        )
        attention = Attention(self.num_attention_heads, dropout=self.attention_probs_dropout_prob, bias=False, relative=relative)
        embedding = replace(
            bert.embedding,
            norm=None,
            positions=Positions("none", self.max_position_embeddings),
            segments=0,
            query=True,
        )
        inner = FeedForward(self.intermediate_size, self.hidden_act, dropout=self.hidden_dropout_prob)
        blocks = tuple(replace(block, attention=attention, feed_forward=inner) for block in bert.blocks)
        shared = relative if blocks else None
        return replace(bert, embedding=embedding, blocks=blocks, heads=heads_at_last_token(), relative=shared)


MODEL_TYPES = {"xlnet": "XLNet"}

# Hugging Face classes whose suffixes differ from those of other families.
SUFFIXES = {("mlm",): "LMHeadModel", ("question_answering",): "ForQuestionAnsweringSimple"}


# The sizes of XLNet-large are the defaults of the class.
CLASS_DEFAULTS: dict = {"xlnet": {"classifier_dropout": 0.1}}
ALIASES: tuple = (
    ("vocab_size", "n_token"),
    *ours.same("hidden_size", "num_hidden_layers", "num_attention_heads"),
    ("max_position_embeddings", "longest_text"),
)

_SIZES = (
    ("hidden_size", "d_model"),
    ("num_hidden_layers", "n_layer"),
    ("num_attention_heads", "n_head"),
    ("intermediate_size", "d_inner"),
    ("hidden_act", "ff_activation"),
)
CONFIG = (
    ("vocab_size", "vocab_size"),
    *_SIZES,
    ("hidden_dropout_prob", "dropout"),
    ("attention_probs_dropout_prob", "dropout"),
    ("classifier_dropout", "summary_last_dropout"),
    ("pooler_act", "summary_activation"),
    ("initializer_range", "initializer_range"),
    ("layer_norm_eps", "layer_norm_eps"),
    ("pad_token_id", "pad_token_id"),
    *ours.same("clamp_len", "mem_len", "reuse_len", "use_mems_eval", "use_mems_train"),
)
FIXED: tuple = (
    ("attn_type", "bi"),
    ("bi_data", False),
    ("same_length", False),
    ("untie_r", True),
    ("summary_type", "last"),
    ("summary_use_proj", True),
    ("summary_proj_to_labels", False),
    ("tie_word_embeddings", True),
    ("is_decoder", False),
    ("pruned_heads", {}),
)

# Google's xlnet_config.json.
GOOGLE_CONFIG = (("vocab_size", "n_token"), *_SIZES)


def in_one_spelling(values: Mapping[str, Any], where: Any) -> dict[str, Any]:
    """The values of a `config.json` with 0 for unlimited memory instead of null, which is the same as a missing key."""
    return {**values, **({"mem_len": 0} if "mem_len" in values and values["mem_len"] is None else {})}


def problem_of(values: Mapping[str, Any]) -> str | None:
    """Why a config file describes another architecture, if no field covers that; None if it does not."""
    names = values.get("architectures")
    if isinstance(names, list) and "XLNetForQuestionAnswering" in names:
        return (
            "architectures must be of a class without beam search, such as XLNetForQuestionAnsweringSimple; got "
            "XLNetForQuestionAnswering"
        )
    if "summary_activation" in values and not values["summary_activation"]:
        return f"summary_activation must name an activation; got {values['summary_activation']!r:.80}"
    hidden, heads, width = values.get("d_model", 1024), values.get("n_head", 16), values.get("d_head")
    if isinstance(width, int) and isinstance(heads, int) and width * heads != hidden:
        return f"d_head must be d_model / n_head; got {width} for {hidden!r:.20} and {heads}"
    return None


def further_keys(config: XLNetConfig) -> dict[str, Any]:
    """Keys of `config.json` besides `CONFIG`: the head width, null for unlimited memory, and our own maximum length of texts, for
    which there is no other key."""
    limit = config.max_position_embeddings
    own = {} if limit == XLNetConfig.max_position_embeddings else {"longest_text": limit}
    return {"d_head": config.hidden_size // config.num_attention_heads, "untie_r": True, "mem_len": config.mem_len or None, **own}


_ATTENTION = "Encoder-{block}-MultiHeadSelfAttention"
POSITION_KEY = dense(f"{_ATTENTION}/position_key", bias=False)
VECTORS = Module((_ATTENTION,), (*RELATIVE_BIASES, "segment_embeddings"))
QUERY = Module(("Embedding-Query",), ("vector",))
PROJECTIONS = {
    **{dense(module.layers[0], bias=False): name for module, name in ((ours.QUERY, "q"), (ours.KEY, "k"), (ours.VALUE, "v"))},
    POSITION_KEY: "r",
}
OUTPUT = dense(ours.ATTENTION_OUTPUT.layers[0], bias=False)
FEED_FORWARD = {ours.INTERMEDIATE: "layer_1", ours.OUTPUT: "layer_2"}

# The names of bias vectors in both formats.
_VECTORS = {"content_bias": "r_w_bias", "position_bias": "r_r_bias", "segment_bias": "r_s_bias", "segment_embeddings": "seg_embed"}


def _heads(summary):
    """The heads in Hugging Face files."""
    return {
        "mlm": {ours.MLM_BIAS: "lm_loss", tied(ours.TOKEN): "lm_loss"},
        "classification": {**summary, ours.CLASSIFICATION: "logits_proj"},
        "token_classification": {ours.TOKEN_CLASSIFICATION: "classifier"},
        "crf": {ours.CRF: "crf"},
        "question_answering": {ours.QUESTION_ANSWERING: "qa_outputs"},
        "multiple_choice": {**summary, ours.MULTIPLE_CHOICE: "logits_proj"},
    }


@functools.cache
def _huggingface(heads):
    """The names in Hugging Face files, whose arrays have an axis of this many heads."""
    per_head = Naming(
        {"kernel": "", "vector": "", **_VECTORS},
        {"kernel": f"heads:{heads}", "vector": "heads:1", **dict.fromkeys(_VECTORS, f"heads:{heads}")},
    )
    output = Naming({"kernel": ""}, {"kernel": f"heads_transposed:{heads}"})
    layer = "transformer.layer.{layer}."
    return NameTable(
        embeddings=PYTORCH.rows({ours.TOKEN: "transformer.word_embedding"}) + per_head.rows({QUERY: "transformer.mask_emb"}),
        block=(
            *per_head.rows(under(f"{layer}rel_attn.", {**PROJECTIONS, VECTORS: ""})),
            *output.rows({OUTPUT: f"{layer}rel_attn.o"}),
            *PYTORCH.rows(under(layer, {ours.ATTENTION_NORM: "rel_attn.layer_norm", ours.OUTPUT_NORM: "ff.layer_norm"})),
            *PYTORCH.rows(under(f"{layer}ff.", FEED_FORWARD)),
        ),
        heads={head: PYTORCH.rows(names) for head, names in _heads({ours.POOLER: "sequence_summary.summary"}).items()},
        prefix="transformer.",
    )


# For what does not depend on the config, such as which heads exist.
HUGGINGFACE = _huggingface(1)


def table_of(config: XLNetConfig) -> NameTable:
    """The `NameTable` of a config, whose arrays have an axis of heads."""
    return _huggingface(config.num_attention_heads)


def google_table_of(config: XLNetConfig) -> NameTable:
    """The names in Google's checkpoint, for reading only: biases and segment vectors of all layers are stacked."""
    heads, layers = config.num_attention_heads, range(1, config.num_hidden_layers + 1)
    endings = {
        "kernel": "/kernel",
        "bias": "/bias",
        "gamma": "/gamma",
        "beta": "/beta",
        "embeddings": "/lookup_table",
        "vector": "",
    }
    plain = Naming(endings, {"vector": "heads:1"})
    per_head, output = (Naming(endings, {"kernel": f"{layout}:{heads}"}) for layout in ("heads", "heads_transposed"))
    stacked = Naming(_VECTORS, dict.fromkeys(_VECTORS, f"stacked:{heads}"))
    every = replace(VECTORS, layers=tuple(_ATTENTION.format(block=number) for number in layers))
    prefix, layer = "model/transformer/", "model/transformer/layer_{layer}/"
    return NameTable(
        embeddings=(
            *plain.rows({ours.TOKEN: f"{prefix}word_embedding", QUERY: f"{prefix}mask_emb/mask_emb"}),
            *(stacked.rows({every: prefix}) if layers else ()),
        ),
        block=(
            *per_head.rows(under(f"{layer}rel_attn/", PROJECTIONS)),
            *output.rows({OUTPUT: f"{layer}rel_attn/o"}),
            *plain.rows(under(layer, {ours.ATTENTION_NORM: "rel_attn/LayerNorm", ours.OUTPUT_NORM: "ff/LayerNorm"})),
            *plain.rows(under(f"{layer}ff/", FEED_FORWARD)),
        ),
        heads={"mlm": plain.rows({ours.MLM_BIAS: "model/lm_loss"})},
        prefix=prefix,
        ignored=(r".*/(adam|lamb)_[mv]", r".*/Adam(_1)?", r"global_step", r"beta[12]_power"),
    )


_BASE = {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072}

# Parameters of the encoder, including its query vector.
SIZES: tuple = (("xlnet-large-cased", {}, 360_268_800), ("xlnet-base-cased", _BASE, 116_718_336))
