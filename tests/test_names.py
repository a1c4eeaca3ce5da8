"""What can be imported, and what importing it imports."""

import importlib
import os
import subprocess
import sys

import keras
import pytest

import keras_bert_rebuild

pytestmark = pytest.mark.backend

# keras_bert 0.89: module, the names that user code imports from it.
NAMES_OF_KERAS_BERT = {
    "": "TOKEN_PAD TOKEN_UNK TOKEN_CLS TOKEN_SEP TOKEN_MASK gelu get_model compile_model get_base_dict gen_batch_inputs "
    "get_token_embedding get_custom_objects build_model_from_config load_model_weights_from_checkpoint "
    "load_trained_model_from_checkpoint load_vocabulary Tokenizer AdamWarmup calc_train_steps POOL_NSP POOL_MAX POOL_AVE "
    "get_checkpoint_paths extract_embeddings_generator extract_embeddings PretrainedInfo PretrainedList get_pretrained "
    "__version__ bert loader tokenizer optimizers util datasets layers",
    ".bert": "TOKEN_PAD TOKEN_UNK TOKEN_CLS TOKEN_SEP TOKEN_MASK gelu get_model compile_model get_base_dict gen_batch_inputs "
    "get_token_embedding get_custom_objects PositionEmbedding LayerNormalization get_inputs get_embedding TokenEmbedding "
    "EmbeddingSimilarity Masked Extract TaskEmbedding AdamWarmup keras np",
    ".layers": "get_inputs get_embedding TokenEmbedding EmbeddingSimilarity Masked Extract MaskedGlobalMaxPool1D MaskedConv1D "
    "TaskEmbedding inputs embedding masked extract pooling conv task_embed",
    ".layers.embedding": "get_embedding TokenEmbedding EmbeddingSimilarity",
    ".layers.pooling": "MaskedGlobalMaxPool1D",
    ".layers.conv": "MaskedConv1D",
    ".layers.task_embed": "TaskEmbedding",
    ".optimizers": "AdamWarmup calc_train_steps util warmup_v2",
    ".datasets": "PretrainedInfo PretrainedList get_pretrained pretrained",
    ".util": "POOL_NSP POOL_MAX POOL_AVE get_checkpoint_paths extract_embeddings_generator extract_embeddings",
    ".loader": "build_model_from_config load_model_weights_from_checkpoint load_trained_model_from_checkpoint load_vocabulary "
    "checkpoint_loader",
    ".tokenizer": "Tokenizer",
}

# Names from before 0.89: modules deleted since, and functions of keras_transformer.
NAMES_OF_OLDER_RELEASES = {
    "": "set_custom_objects get_encoders get_encoder_component activations backend",
    ".bert": "set_custom_objects get_encoders get_encoder_component get_encoder_custom_objects",
    ".backend": "keras utils activations applications backend datasets engine layers preprocessing wrappers callbacks constraints "
    "initializers metrics models losses optimizers regularizers TF_KERAS EAGER_MODE",
    ".activations": "gelu",
    ".optimizers.warmup": "AdamWarmup",
    ".activations.gelu_fallback": "gelu",
    ".activations.gelu_selection": "gelu",
    ".activations.gelu_tensorflow": "gelu",
}


@pytest.mark.parametrize("module", NAMES_OF_KERAS_BERT)
def test_every_name_of_keras_bert_is_importable_under_the_same_path(module):
    loaded = importlib.import_module(f"keras_bert_rebuild{module}")
    missing = [name for name in NAMES_OF_KERAS_BERT[module].split() if not hasattr(loaded, name)]
    assert not missing


@pytest.mark.parametrize("module", NAMES_OF_OLDER_RELEASES)
def test_names_of_older_releases_of_keras_bert_are_importable_under_the_same_path(module):
    loaded = importlib.import_module(f"keras_bert_rebuild{module}")
    assert not [name for name in NAMES_OF_OLDER_RELEASES[module].split() if not hasattr(loaded, name)]


def test_every_public_name_exists_and_has_a_docstring():
    for name in keras_bert_rebuild.__all__:
        value = getattr(keras_bert_rebuild, name)
        if callable(value):
            assert value.__doc__, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'get_modle'"):
        keras_bert_rebuild.get_modle  # noqa: B018


def test_constants_are_those_of_keras_bert():
    assert keras_bert_rebuild.TOKEN_PAD == ""
    assert (keras_bert_rebuild.POOL_NSP, keras_bert_rebuild.POOL_MAX) == ("POOL_NSP", "POOL_MAX")
    assert list(keras_bert_rebuild.get_base_dict()) == ["", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def test_custom_objects_are_a_new_dictionary_with_the_names_of_keras_bert():
    objects = keras_bert_rebuild.get_custom_objects()
    names = "gelu LayerNormalization MultiHeadAttention FeedForward TrigPosEmbedding EmbeddingRet EmbeddingSim PositionEmbedding "
    names += "TokenEmbedding EmbeddingSimilarity TaskEmbedding Masked Extract AdamWarmup MaskedConv1D MaskedGlobalMaxPool1D"
    assert set(names.split()) <= set(objects)
    assert objects is not keras_bert_rebuild.get_custom_objects()


@pytest.mark.slow(torch=True)
def test_importing_the_package_imports_only_the_chosen_backend():
    code = (
        "import sys, keras_bert_rebuild, keras_bert_rebuild.backend, keras_bert_rebuild.activations, keras_bert_rebuild.bert; "
        "print(*[m for m in ('tensorflow', 'torch', 'jax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert done.stdout.split() == [keras.backend.backend()]


@pytest.mark.slow(torch=True)
def test_importing_the_package_loads_little_besides_registered_modules():
    code = (
        "import sys, keras_bert_rebuild\n"
        "print(*[m for m in sys.modules if m.startswith(('keras_bert_rebuild.tasks', 'keras_bert_rebuild.text', 'tokenizers'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=True)
    assert not done.stdout.split()


def test_a_star_import_gives_the_names_of_keras_bert():
    names = {}
    exec("from keras_bert_rebuild import *", names)
    submodules = {"bert", "loader", "tokenizer", "optimizers", "util", "datasets", "layers"}
    assert set(NAMES_OF_KERAS_BERT[""].split()) - submodules <= set(names)
