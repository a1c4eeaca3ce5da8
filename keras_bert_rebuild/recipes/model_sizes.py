"""The sizes of a new model, by name or from a file."""

from collections.abc import Mapping

from keras_bert_rebuild.config import CONFIG_CLASSES, BertConfig
from keras_bert_rebuild.families import electra, transformer
from keras_bert_rebuild.pretrained.config_files import config_from_google, config_from_huggingface, read_json

# Sizes by name. Reference: Devlin et al., 2019, section 3; Turc et al., 2019, table 1 (https://arxiv.org/abs/1908.08962);
# Vaswani et al., 2017, table 3, for those of the Transformer; Clark et al., 2020, table 6, for the discriminators of ELECTRA.
SIZES = {
    name: {"num_hidden_layers": blocks, "hidden_size": width, "num_attention_heads": width // 64, "intermediate_size": 4 * width}
    for name, blocks, width in (
        ("tiny", 2, 128),
        ("mini", 4, 256),
        ("small", 4, 512),
        ("medium", 8, 512),
        ("base", 12, 768),
        ("large", 24, 1024),
    )
}
SIZES |= {name: {"family": "transformer", **fields} for name, fields, _ in transformer.SIZES}
SIZES |= {
    name.removesuffix("-discriminator"): {"family": "electra", **electra.DEFAULTS, **fields}
    for name, fields, _ in electra.SIZES
    if name.endswith("-discriminator")
}


def size_fields(model):
    """The fields of a `BertConfig` that define the size of a model.

    Args:
        model: the name of a size, the path of a config.json, or such fields.

    Raises:
        ValueError: the size, the file or a field does not exist.
    """
    if isinstance(model, Mapping):
        known = CONFIG_CLASSES.get(str(model.get("family")), BertConfig).__dataclass_fields__
        unknown = [name for name in model if name not in known]
        if unknown:
            raise ValueError(f"the model must have fields of a BertConfig; got {', '.join(map(str, unknown))}.")
        return model
    if model in SIZES:
        return SIZES[model]
    values = read_json(model, f"one of the sizes {', '.join(SIZES)}, or the config file of a model,")
    read = config_from_huggingface if "model_type" in values else config_from_google
    return read(values, model).to_dict()
