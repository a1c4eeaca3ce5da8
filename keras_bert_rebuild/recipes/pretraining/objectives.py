"""The objectives of pretraining: each with its model, its batches, its metrics and its costs."""

import math
from dataclasses import dataclass

from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.families import electra
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.permutation_model import build_permutation_model
from keras_bert_rebuild.models.replaced_token_model import build_replaced_token_model
from keras_bert_rebuild.recipes.pretraining.models_of_run import starting_model
from keras_bert_rebuild.recipes.step_costs import embedding_params


@dataclass(frozen=True)
class Trained:
    """A model that a step trains, to compute its costs."""

    config: BertConfig
    heads: tuple[str, ...]
    shared: int = 0
    """Its parameters that it shares with another model of the same step."""
    again: float = 0.0
    """Fraction of the tokens that run through its blocks in a second stream."""
    frozen: bool = False
    """Whether it is frozen, as a teacher, and only runs forward."""
    after_logits: bool = False
    """Whether it begins when the logits of the vocabulary are no longer needed at once: ELECTRA's discriminator."""

    @property
    def num_params(self):
        """Its parameters without shared ones."""
        return self.config.num_params(self.heads) - self.shared


class MaskedTokens:
    """BERT's objective: masked tokens, and optionally a second task on pairs.

    Reference: Devlin et al., 2019, section 3.1.
    """

    name = "mlm"
    next_sentence = "nsp"
    """The default second task."""

    masking = "token"
    """The default unit of masking."""

    mask_rate = 0.15
    """The default fraction of the tokens to predict."""

    folders: tuple[str, ...] = ("model",)
    """The folders of the result."""

    quality: tuple[str, ...] = ("loss", "mlm_loss", "mlm_accuracy", "mlm_perplexity", "pair_loss", "pair_accuracy")
    """Columns of the metrics table. "pair" is NSP or SOP; values are means over the labels since the previous row."""

    only: tuple = ()
    """Settings that only this objective has, and their defaults."""

    def check(self, settings):
        """Refuse settings that the objective cannot use.

        Raises:
            ValueError: there is one.
        """
        if settings.packing and settings.lengths:
            raise ValueError(f"lengths must be left out with packing, whose rows are full; got {list(settings.lengths)}.")

    def fields(self, fields):
        """The config fields of a new model, from the fields of its size."""
        return fields

    def heads(self, settings):
        """The heads of the model, as `build_model` takes them."""
        return ("mlm",) if settings.next_sentence == "none" else ("mlm", settings.next_sentence)

    def batches(self, settings):
        """The arguments of `PretrainingBatches` that depend on the objective."""
        return {"next_sentence": None if settings.next_sentence == "none" else settings.next_sentence}

    def models(self, config, settings):
        """The models that a step trains, a list of `Trained`."""
        return [Trained(config, self.heads(settings))]

    def make(self, corpus, settings):
        """The initial model of a run on a corpus."""
        return starting_model(corpus, settings)

    def arrays_of_logits(self, settings, kind):
        """How many arrays as large as all logits a step holds at once: in the compute dtype, and in float32.

        Args:
            settings: `PretrainSettings`.
            kind: "tpu", "gpu" or "cpu".
        """
        # The logits and their gradient; except on a TPU, these are the logarithms of the probabilities, and not yet rounded.
        return (2, 0) if kind == "tpu" else (0, 2)

    def build(self, config, settings, seq_len=None):
        """A new model, for examples of a fixed length or, with None, of any length."""
        return build_model(config, self.heads(settings), seq_len=seq_len, packed=settings.packing)

    def vocabulary(self, corpus, settings):
        """The tokenizer of the result, as `save_pretrained` takes it."""
        return list(corpus.vocabulary)

    def results(self, model, settings):
        """The models to save, in the order of `folders`, and whether to save copies of them that take unpacked rows."""
        return [(model, settings.packing)]

    def quality_of(self, logs, settings):
        """Keras's metrics under the names of the columns."""
        pair = None if settings.next_sentence == "none" else settings.next_sentence.upper()
        names = {"loss": "loss", "MLM_loss": "mlm_loss", "MLM_accuracy": "mlm_accuracy"}
        names |= {f"{pair}_loss": "pair_loss", f"{pair}_accuracy": "pair_accuracy"}
        if pair is None:
            names = {"loss": "mlm_loss", "accuracy": "mlm_accuracy"}
        quality = renamed(logs, names)
        if pair is None:
            quality["loss"] = quality["mlm_loss"]
        return quality


class ReplacedTokens(MaskedTokens):
    """ELECTRA's objective: a small generator predicts masked tokens, a discriminator finds its samples among the tokens.

        loss = L_MLM(generator) + discriminator_weight · L_RTD(discriminator)

    Of the chosen tokens, the generator sees 85 % as `[MASK]` and 15 % unchanged, as in `pretrain_helpers.py` of
    google-research/electra; the paper only says that they are replaced with `[MASK]`. `[CLS]`, `[SEP]` and padding are never
    chosen.

    Reference: Clark et al., 2020, sections 2 and 3.2 (https://arxiv.org/abs/2003.10555).
    """

    name = "electra"
    next_sentence = "none"
    folders = ("model", "generator")
    quality = ("loss", "mlm_loss", "mlm_accuracy", "mlm_perplexity", "rtd_loss", "rtd_accuracy", "rtd_replaced")
    only = (("generator_size", None), ("discriminator_weight", 50.0))

    def check(self, settings):
        for name, what in (("init", "starts a new generator with its discriminator"), ("loss_chunk", "samples from all logits")):
            if getattr(settings, name) is not None:
                raise ValueError(
                    f"{name} must be left out with objective='electra', which {what}; got {getattr(settings, name)!r}."
                )
        if settings.next_sentence != "none":
            raise ValueError(
                f"next_sentence must be 'none' with objective='electra', as in ELECTRA; got {settings.next_sentence!r}."
            )
        super().check(settings)

    def fields(self, fields):
        family = fields.get("family", "electra")
        if family != "electra":
            raise ValueError(f"objective='electra' trains models of the family electra; got a model of the family {family}.")
        tables = {"embedding_size": None} if "hidden_size" in fields else {}  # as wide as the blocks
        return {"family": "electra", **electra.DEFAULTS, **tables, **fields}

    def heads(self, settings):
        return ("rtd",)

    def batches(self, settings):
        return {"next_sentence": None, "mask_mask_rate": 0.85, "mask_random_rate": 0.0, "draws": True}

    def models(self, config, settings):
        generator = generator_config(config, settings.generator_size)
        return [Trained(config, ("rtd",), after_logits=True), Trained(generator, ("mlm",), embedding_params(config))]

    def arrays_of_logits(self, settings, kind):
        return 1, 2  # before the gradient exists: the probabilities, and their cumulative sums to sample from

    def build(self, config, settings, seq_len=None):
        generator = generator_config(config, settings.generator_size)
        return build_replaced_token_model(config, generator, settings.discriminator_weight, seq_len, settings.packing)

    def results(self, model, settings):
        return [(model.discriminator, True), (model.generator, True)]

    def quality_of(self, logs, settings):
        columns = {f"{kind}_{name}": f"{kind.lower()}_{name}" for kind in ("MLM", "RTD") for name in ("loss", "accuracy")}
        return renamed(logs, {"loss": "loss", **columns, "RTD_replaced": "rtd_replaced"})


class PermutedTokens(MaskedTokens):
    """XLNet's objective: chosen tokens are predicted one after another in a random order, each from those before it.

        loss = −mean over the chosen tokens i of log p(token i | tokens that are not chosen, tokens j with order_j < order_i)

    A sixth of the tokens is chosen (the paper's K = 6), in spans of one to five words, shorter ones more often, as in
    `data_utils.py` of zihangdai/xlnet. There, each span is the only one within a context of six times its length; here, spans are
    drawn from the whole text. An example is one segment in the layout of the store, `[CLS] A [SEP]` followed by padding, where
    that program has two segments, `A <sep> B <sep> <cls>`. Special tokens are never chosen, and all tokens attend to them. Text is
    read in one direction, without memories of preceding text.

    Reference: Yang et al., 2019, sections 2.2 and 2.3 (https://arxiv.org/abs/1906.08237).
    """

    name = "xlnet"
    next_sentence = "none"
    masking = "span"
    mask_rate = 1 / 6
    quality = ("loss", "mlm_loss", "mlm_accuracy", "mlm_perplexity")

    def check(self, settings):
        if settings.init is not None:
            raise ValueError(f"init must be left out with objective='xlnet', which starts a new model; got {settings.init!r}.")
        if settings.next_sentence != "none":
            raise ValueError(f"next_sentence must be 'none' with objective='xlnet', as in XLNet; got {settings.next_sentence!r}.")
        if settings.packing:
            raise ValueError("packing must be left out with objective='xlnet', whose prediction orders cover a single sequence.")

    def fields(self, fields):
        family = fields.get("family", "xlnet")
        if family != "xlnet":
            raise ValueError(f"objective='xlnet' trains models of the family xlnet; got a model of the family {family}.")
        return {"family": "xlnet", **fields}

    def batches(self, settings):
        return {"next_sentence": None, "mask_mask_rate": 0.0, "mask_random_rate": 0.0, "order": True}

    def models(self, config, settings):
        return [Trained(config, ("mlm",), again=settings.mask_rate)]

    def build(self, config, settings, seq_len=None):
        return build_permutation_model(config, seq_len)

    def results(self, model, settings):
        return [(model, True)]


OBJECTIVES = {objective.name: objective for objective in (MaskedTokens(), ReplacedTokens(), PermutedTokens())}


def objective_defaults(settings):
    """The settings that only some objectives have, with the defaults of the chosen one; empty for an unknown objective.

    Raises:
        ValueError: a setting of another objective is given.
    """
    learned = OBJECTIVES.get(settings.objective) if isinstance(settings.objective, str) else None
    if learned is None:
        return {}
    for other in OBJECTIVES.values():
        for name, _ in other.only if other is not learned else ():
            if getattr(settings, name) is not None:
                raise ValueError(f"{name} is for objective={other.name!r}; got {getattr(settings, name)!r} with {learned.name!r}.")
    common = {name: getattr(learned, name) for name in ("next_sentence", "masking", "mask_rate")}
    defaults = {**common, **({"next_sentence": "none"} if settings.packing else {}), **dict(learned.only)}
    return {name: value for name, value in defaults.items() if getattr(settings, name) is None}


def unused_settings(settings):
    """Settings to leave out of a run's file: those of other objectives; so files from before there was a choice still match."""
    foreign = [name for other in OBJECTIVES.values() if other is not settings.learned for name, _ in other.only]
    defaults = {"objective": MaskedTokens.name, "packing": False}
    return [*foreign, *(name for name, value in defaults.items() if getattr(settings, name) == value)]


def generator_config(config, size=None):
    """The config of the generator for a discriminator: as many blocks, the same embedding, a smaller width, heads of width 64.

    Args:
        config: the `BertConfig` of the discriminator.
        size: its width as a fraction of the discriminator's; None for a third at the width of ELECTRA-base, 768, else a quarter.

    Raises:
        ValueError: the width is 0, or its heads do not divide it.

    Reference: Clark et al., 2020, table 6; `get_generator_config` of google-research/electra.
    """
    width = round(config.hidden_size * ((1 / 3 if config.hidden_size == 768 else 1 / 4) if size is None else size))
    heads = max(1, width // 64)
    if width < 1 or width % heads:
        raise ValueError(
            f"generator_size must give a width above 0 that is divisible by its heads, one per 64; got {size} of "
            f"{config.hidden_size}, a width of {width} with {heads} heads."
        )
    embedding = None if width == config.embedding_width else config.embedding_width
    changes = {"hidden_size": width, "num_attention_heads": heads, "intermediate_size": 4 * width, "embedding_size": embedding}
    return BertConfig.from_dict({**config.to_dict(), **changes})


def renamed(logs, names):
    """The logs with renamed keys, plus the perplexity of masked tokens."""
    values = {ours: float(logs[theirs]) for theirs, ours in names.items() if theirs in logs}
    return {**values, "mlm_perplexity": math.exp(min(values["mlm_loss"], 700))}
