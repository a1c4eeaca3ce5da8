"""XLNet's files: Hugging Face's folder, Google's checkpoint, Keras's file, the tokenizer, and the configs that are refused."""

import json

import numpy as np
import pytest
from helpers import small_tokenizers
from helpers.reference import weights_of as values_of
from helpers.small import random_model
from helpers.tiny_families import XLNET
from safetensors.numpy import load_file

from keras_bert_rebuild import (
    QuestionAnswerer,
    build_model,
    from_pretrained,
    load_tokenizer,
    save_pretrained,
    show_attention,
)
from keras_bert_rebuild.checkpoints.tensorflow_checkpoint import write_tensorflow_checkpoint
from keras_bert_rebuild.data.labelled.labelled_examples import Question
from keras_bert_rebuild.explain.weight_names import weight_names
from keras_bert_rebuild.export.tokenizer_files import sentencepiece_pipeline
from keras_bert_rebuild.models.heads import heads_of
from keras_bert_rebuild.pretrained.config_files import config_from_google, config_from_huggingface, config_to_huggingface
from keras_bert_rebuild.text.sentencepiece_tokenizer import SentencePieceTokenizer


def test_its_names_have_the_shapes_of_a_file_and_the_part_of_every_head(rng, tmp_path):
    model = random_model(XLNET, ("mlm",), rng)
    save_pretrained(model, tmp_path)
    arrays, weights = load_file(tmp_path / "model.safetensors"), values_of(model)
    rows = weight_names(XLNET, ("mlm",))
    assert {row.name: row.their_shape for row in rows if row.parameters} == {name: array.shape for name, array in arrays.items()}
    of_head = {row.path.rpartition("Attention/")[2]: arrays[row.name][row.of_head(1)] for row in rows if "Encoder-2-M" in row.path}
    layer = "Encoder-2-MultiHeadSelfAttention"
    np.testing.assert_array_equal(of_head["query/kernel"][:, 0], weights[f"{layer}/query/kernel"][:, 4:8])
    np.testing.assert_array_equal(of_head["output/kernel"][:, 0].T, weights[f"{layer}/output/kernel"][4:8])
    np.testing.assert_array_equal(of_head["segment_bias"][0], weights[f"{layer}/segment_bias"][4:8])
    np.testing.assert_array_equal(of_head["segment_embeddings"][:, 0], weights[f"{layer}/segment_embeddings"][:, 4:8])


def google_arrays(weights, layers, heads):
    """The arrays of a model under the names of zihangdai/xlnet, biases stacked over the layers."""

    def by_heads(array):
        return array.reshape(*array.shape[:-1], heads, -1)

    top = "model/transformer"
    yield f"{top}/word_embedding/lookup_table", weights["Embedding-Token/embeddings"]
    yield f"{top}/mask_emb/mask_emb", weights["Embedding-Query/vector"][None]
    yield "model/lm_loss/bias", weights["MLM-Sim/bias"]
    yield "global_step", np.zeros((), "int64")
    attention = [f"Encoder-{n + 1}-MultiHeadSelfAttention" for n in range(layers)]
    for ours, theirs in (("content_bias", "r_w_bias"), ("position_bias", "r_r_bias"), ("segment_bias", "r_s_bias")):
        yield f"{top}/{theirs}", np.stack([by_heads(weights[f"{name}/{ours}"]) for name in attention])
    yield f"{top}/seg_embed", np.stack([by_heads(weights[f"{name}/segment_embeddings"]) for name in attention])
    for n, name in enumerate(attention):
        at, inner = f"{top}/layer_{n}", f"Encoder-{n + 1}-FeedForward"
        for ours, theirs in (("query", "q"), ("key", "k"), ("value", "v"), ("position_key", "r")):
            yield f"{at}/rel_attn/{theirs}/kernel", by_heads(weights[f"{name}/{ours}/kernel"])
        yield f"{at}/rel_attn/o/kernel", by_heads(weights[f"{name}/output/kernel"].T)
        for norm, theirs in ((f"{name}-Norm", "rel_attn"), (f"{inner}-Norm", "ff")):
            for end in ("gamma", "beta"):
                yield f"{at}/{theirs}/LayerNorm/{end}", weights[f"{norm}/{end}"]
        for ours, theirs in (("intermediate", "layer_1"), ("output", "layer_2")):
            for end in ("kernel", "bias"):
                yield f"{at}/ff/{theirs}/{end}", weights[f"{inner}/{ours}/{end}"]


def test_googles_checkpoint_is_read(rng, tmp_path):
    model = random_model(XLNET.replace(hidden_act="gelu"), ("mlm",), rng)
    weights = values_of(model)
    write_tensorflow_checkpoint(tmp_path / "xlnet_model.ckpt", google_arrays(weights, 2, 3))
    values = {"d_head": 4, "d_inner": 20, "d_model": 12, "ff_activation": "gelu", "n_head": 3, "n_layer": 2, "n_token": 31}
    (tmp_path / "xlnet_config.json").write_text(json.dumps({**values, "untie_r": True}))
    back = from_pretrained(tmp_path)
    assert heads_of(back) == ("mlm",)
    assert (back.config.family, back.config.hidden_act, back.load_report.unused) == ("xlnet", "gelu", [])
    for path, value in weights.items():
        np.testing.assert_array_equal(values_of(back)[path], value, err_msg=path)
    with pytest.raises(ValueError, match="untie_r must be True, got False"):
        config_from_google({**values, "untie_r": False})
    with pytest.raises(ValueError, match="Google's format has no names for the family xlnet"):
        save_pretrained(back, tmp_path / "again", format="google")


def test_its_tokenizer_is_read_and_written_and_its_page_is_drawn(rng, tmp_path):
    (tmp_path / "spiece.model").write_bytes(small_tokenizers.sentencepiece("xlnet"))
    (tmp_path / "config.json").write_text('{"model_type": "xlnet"}')
    tokenizer = load_tokenizer(tmp_path)
    rows = tokenizer.encode_batch(["the harbour", "she"], ["gulls", "nets by the wall"], pad_to="longest")
    assert (rows.ids[:, -1] == tokenizer.cls_id).all()
    assert (rows.segments[:, -1] == 2).all()
    assert (rows.mask[:, -1] == 1).all()
    assert {0, 1} <= set(rows.segments[0].tolist())
    apart = tokenizer.encode_batch(["the harbour", "she"], ["gulls", "nets by the wall"])
    for row, mask, alone in zip(rows.ids, rows.mask, apart.ids, strict=True):
        assert row[mask == 1].tolist() == alone.tolist()
        assert (row[mask == 0] == tokenizer.pad_id).all()
    model = random_model(XLNET.replace(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_id), (), rng)
    save_pretrained(model, tmp_path / "saved", vocabulary=tokenizer)
    back = load_tokenizer(tmp_path / "saved")
    assert back == tokenizer
    assert show_attention(model, back, "the harbour was quiet", "she put the letter").html.startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"summary_activation": None}, "summary_activation must name an activation; got None"),
        ({"d_head": 32}, "d_head must be d_model / n_head; got 32 for 1024 and 16"),
        ({"d_model": 15, "n_head": 3}, "hidden_size must be even"),
        ({"clamp_len": "far"}, "clamp_len must be a whole number from -1 to 1048576; got 'far'"),
        ({"mem_len": -3}, "mem_len must be a whole number from 0 to 1048576; got -3"),
        ({"use_mems_eval": "yes"}, "use_mems_eval must be True or False; got 'yes'"),
        ({"architectures": ["XLNetForQuestionAnswering"]}, "architectures must be of a class without beam search"),
    ],
)
def test_settings_that_are_not_computed_are_refused_in_a_sentence(changes, said):
    with pytest.raises(ValueError, match=said) as error:
        config_from_huggingface({"model_type": "xlnet", **changes})
    assert "\n" not in str(error.value)


def test_a_longer_static_length_is_taken_and_written(tmp_path):
    save_pretrained(build_model(XLNET), tmp_path / "one")
    model = from_pretrained(tmp_path / "one", seq_len=600)
    assert model.inputs[0].shape == (None, 600)
    save_pretrained(model, tmp_path / "two")
    assert from_pretrained(tmp_path / "two").config.max_length == 600


def test_memories_of_any_length_are_written_as_no_limit():
    config = config_from_huggingface({"model_type": "xlnet", "mem_len": None})
    assert (config.mem_len, config_from_huggingface({"model_type": "xlnet"}).mem_len) == (0, 512)
    assert config == config.replace(mem_len=None)
    assert config_to_huggingface(config)["mem_len"] is None


def test_its_tokenizer_outside_has_the_same_rows(tokenizer):
    pipeline = sentencepiece_pipeline(tokenizer)
    texts, pairs = ["the harbour was quiet", "she put it, naïve café"], ["gulls", "``nets'' by the wall"]
    pipeline.enable_padding(direction="left", pad_id=tokenizer.pad_id, pad_token="<pad>")
    for given in ([*texts], [*zip(texts, pairs, strict=True)]):
        expected = pipeline.encode_batch(given)
        encoding = tokenizer.encode_batch(texts, pairs if isinstance(given[0], tuple) else None, pad_to="longest")
        assert encoding.ids.tolist() == [row.ids for row in expected]
        assert encoding.segments.tolist() == [row.type_ids for row in expected]


@pytest.fixture
def tokenizer():
    return SentencePieceTokenizer(small_tokenizers.sentencepiece("xlnet"), "xlnet")


def test_no_answer_is_the_class_token_at_the_end(tokenizer):
    config = XLNET.replace(vocab_size=len(tokenizer), max_position_embeddings=48)
    task = QuestionAnswerer.from_encoder(build_model(config), tokenizer)
    context = "the gulls stood along the wall"
    encoded = task.encode([Question("1", "where?", context, [(4, "gulls")]), Question("2", "who?", "the boats", [])])
    (answered, without), rows = encoded.targets.tolist(), encoded.windows.ids
    assert without == [len(rows[1]) - 1] * 2
    assert rows[1][without[0]] == tokenizer.cls_id
    first, last = (encoded.windows.offsets[0][i].tolist() for i in answered)
    assert context[first[0] : last[1]] == "gulls"
