"""Teacher and student of a distillation: loading the one, the config and first weights of the other, and pairs of their layers."""

import functools

import numpy as np
from keras import ops

from keras_bert_rebuild.anatomy.bare_if_one import bare_if_one
from keras_bert_rebuild.config import BertConfig
from keras_bert_rebuild.models.bert_model import BertModel
from keras_bert_rebuild.models.build_model import build_model
from keras_bert_rebuild.models.encoder_view import EncoderView
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.models.pretraining_graph import PretrainingGraph
from keras_bert_rebuild.pretrained import from_pretrained
from keras_bert_rebuild.pretrained.find_checkpoint import find_checkpoint
from keras_bert_rebuild.pretrained.tokenizer_files import read_tokenizer_files, tokenizer_of_files


def load_teacher(path, packed=False):
    """A model with the MLM head if the checkpoint has one, and no other head.

    Args:
        path: anything that `from_pretrained` reads.
        packed: whether rows hold several sequences.

    Returns:
        A `BertModel`.

    Raises:
        ValueError: the path cannot be read.
    """
    present = find_checkpoint(path).heads  # None for a file of Keras, which loads as a whole
    model = from_pretrained(path, heads=None if present is None else heads_of_teacher(present))
    heads = heads_of_teacher(heads_of(model))
    if not packed and tuple(heads_of(model)) == tuple(heads):
        return model
    other = build_model(model.config, heads, packed=packed)
    loaded = {layer.name: layer for layer in model.layers}
    for layer in other.layers:
        if layer.weights:
            layer.set_weights(loaded[layer.name].get_weights())
    return other


def heads_of_teacher(present):
    """The heads of a checkpoint that a teacher is loaded with."""
    return [head for head in present if head == "mlm"]


@functools.lru_cache(maxsize=8)
def teacher_facts(path):
    """The config and the heads of a teacher, read once per process.

    Args:
        path: the path as a string.

    Returns:
        Its `BertConfig` and a tuple of heads.
    """
    checkpoint = find_checkpoint(path)
    if checkpoint.config is not None:
        return checkpoint.config, tuple(heads_of_teacher(checkpoint.heads))
    model = from_pretrained(path)
    return model.config, tuple(heads_of_teacher(heads_of(model)))


def teacher_tokenizer(path):
    """The tokenizer in the folder of a teacher; None if there is none."""
    folder = find_checkpoint(path).folder
    files = read_tokenizer_files(folder)
    return tokenizer_of_files(files, where=folder) if files else None


def check_vocabulary(path, config, vocabulary, pad_id):
    """Refuse a store whose vocabulary differs from the teacher's.

    Args:
        path: the path of the teacher.
        config: the teacher's `BertConfig`.
        vocabulary: the tokens of the store in the order of their ids.
        pad_id: the id of padding in the store.

    Raises:
        ValueError: sizes, ids of padding, or tokens differ.
    """
    for what, theirs, ours in (
        ("tokens in its vocabulary", config.vocab_size, len(vocabulary)),
        ("the id of padding", config.pad_token_id, pad_id),
    ):
        if theirs != ours:
            raise ValueError(f"the store must have the teacher's vocabulary: {path} has {theirs} as {what}; the store has {ours}.")
    tokenizer = teacher_tokenizer(path)
    if tokenizer is None:
        return
    for i, token in enumerate(vocabulary):
        theirs = tokenizer.tokens.get(i, token)
        if (theirs or "[PAD]") != (token or "[PAD]"):  # keras_bert's vocabularies pad with the empty string
            raise ValueError(
                f"the store must have the teacher's vocabulary: token {i} of {path} is {theirs!r}; the store's {token!r}."
            )


# Config fields that a student must share with its teacher.
SHARED = ("family", "vocab_size", "pad_token_id", "type_vocab_size", "num_tasks")
# Two configs that agree in these have blocks of the same shapes.
SHAPES = ("hidden_size", "embedding_width", "num_attention_heads", "intermediate_size", "max_position_embeddings")


def student_config(settings, teacher):
    """The config of the student: the teacher's with other sizes.

    Heads keep their width and the feed-forward layers their proportion where only `hidden_size` is given.

    Args:
        settings: `DistillSettings`.
        teacher: the `BertConfig` of the teacher.

    Raises:
        ValueError: a field is unknown or belongs to the vocabulary, or the sizes contradict each other.
    """
    changed = dict(settings.student or {})
    for name in changed:
        if name not in type(teacher).__dataclass_fields__ or name in SHARED:
            raise ValueError(
                f"the student must have fields of a config of the family {teacher.family} without {', '.join(SHARED)}; got {name}."
            )
    layers = max(teacher.num_hidden_layers // 2, 1) if settings.layers is None else settings.layers
    changes = {"num_hidden_layers": layers}
    if settings.hidden_size is not None:
        changes |= _widths(settings.hidden_size, settings.attention_heads, teacher)
    of_settings = {"num_attention_heads": settings.attention_heads, "intermediate_size": settings.intermediate_size}
    changes |= {name: value for name, value in of_settings.items() if value is not None}
    config = BertConfig.from_dict({**teacher.to_dict(), **changes, **changed})
    if config.hidden_size % config.num_attention_heads:
        raise ValueError(
            f"the heads of the student must divide its width, {config.hidden_size}; got {config.num_attention_heads} heads."
        )
    return config


def _widths(width, heads, teacher):
    """The fields that follow from the width of the student."""
    of_head = teacher.hidden_size // teacher.num_attention_heads
    if heads is None and width % of_head:
        raise ValueError(
            f"hidden_size must be a multiple of {of_head}, the width of the teacher's heads, or needs attention_heads."
        )
    return {
        "hidden_size": width,
        "num_attention_heads": heads or width // of_head,
        "intermediate_size": max(round(teacher.intermediate_size * width / teacher.hidden_size), 1),
    }


def starts_from_teacher(settings, teacher, student):
    """Whether the student starts with weights of its teacher: as set, or by default if it differs only in depth."""
    if settings.start is not None:
        return settings.start == "teacher"
    same = all(getattr(teacher, name) == getattr(student, name) for name in SHAPES)
    return same and student.num_distinct_blocks <= teacher.num_distinct_blocks


def source_blocks(settings, teacher, student):
    """The blocks of the teacher, counted from 1, that initialise those of the student.

    By default they are spread evenly from the first to the last: six of twelve are 1, 3, 5, 8, 10 and 12, as in DistilBERT. Blocks
    that a stack repeats, as in ALBERT, count once.

    Args:
        settings: `DistillSettings`.
        teacher, student: the `BertConfig` of each.

    Returns:
        A tuple, as long as the student has blocks of its own.

    Raises:
        ValueError: the teacher has fewer blocks, or lacks one of the given numbers.

    Reference: Sanh et al., 2019, section 3 (https://arxiv.org/abs/1910.01108); `extract_distilbert.py` of huggingface/transformers.
    """
    present, wanted = teacher.num_distinct_blocks, student.num_distinct_blocks
    if settings.start_blocks:
        blocks = tuple(settings.start_blocks)
        if len(blocks) != wanted or not all(1 <= block <= present for block in blocks):
            raise ValueError(f"start_blocks must be {wanted} blocks of the teacher, from 1 to {present}; got {list(blocks)}.")
        return blocks
    if wanted > present:
        raise ValueError(
            f"a student that starts from its teacher must have at most its {present} blocks; got {wanted}: use start='scratch'."
        )
    return tuple(int(block) for block in np.linspace(1, present, wanted).round())


def copy_weights(teacher, student, blocks):
    """Copy the weights of a teacher to a student: those of the chosen blocks, and all weights outside blocks.

    Args:
        teacher, student: models from `build_model`, with the same layer names. If the teacher has no MLM head, the student's is
            left unchanged.
        blocks: from `source_blocks`.

    Raises:
        ValueError: weights of the student are missing from the teacher or have another shape there.
    """
    by_path = {variable.path: variable for variable in teacher.weights}
    has_head = "MLM" in teacher.output_names
    theirs, mine = (EncoderView(model) for model in (teacher, student))
    of_teacher, names, pairs = dict(zip(theirs.numbers, theirs.blocks, strict=True)), {}, []
    for number, block in zip(mine.numbers, mine.blocks, strict=True):
        for layer, source in zip(block.fields, of_teacher[blocks[number - 1]].fields, strict=False):
            if layer is not None and source is not None:
                names[layer.name] = source.name
    for variable in student.weights:
        layer, _, of_layer = variable.path.partition("/")
        path = f"{names.get(layer, layer)}/{of_layer}"
        if path.startswith("MLM") and not has_head:
            continue
        source = by_path.get(path)
        if source is None or source.shape != variable.shape:
            shapes = f"{tuple(variable.shape)}; the teacher has {'no ' if source is None else ''}{path}"
            shapes += "" if source is None else f" of {tuple(source.shape)}"
            raise ValueError(f"a student that starts from its teacher must have its shapes: {variable.path} is {shapes}.")
        pairs.append((variable, source))
    for variable, source in pairs:
        variable.assign(ops.copy(source.value))  # JAX donates the buffers of both to a step


def layer_pairs(layers, teacher, student):
    """Pairs of a layer of the teacher and one of the student.

    Args:
        layers: "last", the last of each; "uniform", each layer of the student with one of the teacher at equal distances; or pairs.
        teacher, student: the `BertConfig` of each.

    Reference: Jiao et al., 2020, section 3.1, for "uniform" (https://arxiv.org/abs/1909.10351).
    """
    theirs, mine = teacher.num_hidden_layers, student.num_hidden_layers
    if layers == "last":
        return ((theirs, mine),)
    if layers == "uniform":
        return tuple((round(n * theirs / mine), n) for n in range(1, mine + 1))
    return tuple(layers)


def without_head(student):
    """The encoder of a student, as a model that shares its layers."""
    hidden = PretrainingGraph(student).without_last_layers.outputs[0]
    model = BertModel(bare_if_one([tensor for tensor in student.inputs if tensor.name != "Input-Masked"]), hidden)
    model.config = student.config
    return model
