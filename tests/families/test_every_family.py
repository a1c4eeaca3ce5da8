"""What is the same for every family, on a tiny model of it and on one with its settings changed: weights, files, padding, ONNX."""

import numpy as np
import pytest
from helpers.reference import weights_of as values_of
from helpers.small import answers, random_model
from helpers.tiny_families import ODD_XLNET, formats_of, has_files, heads_of, modules, name_of_module, tiny_config

from keras_bert_rebuild import explain, from_pretrained, save_pretrained
from keras_bert_rebuild.anatomy.parts import weights_of
from keras_bert_rebuild.explain.config_at import released
from keras_bert_rebuild.explain.weight_names import weight_names
from keras_bert_rebuild.families import deberta_v2, gte, modernbert, nomic_bert, roberta, xlnet
from keras_bert_rebuild.models.heads import heads_of as heads_of_model

BIASED = {
    "norm_bias": True, "attention_bias": True, "mlp_bias": True, "classifier_bias": True, "decoder_bias": False,
    "classifier_pooling": "mean", "hidden_act": "silu", "mlm_act": "relu",
}  # fmt: skip
ODD_DEBERTA = {
    "share_att_key": False, "conv_kernel_size": 3, "conv_act": "gelu_erf", "position_biased_input": True, "type_vocab_size": 2,
    "norm_rel_ebd": "none",
}  # fmt: skip
VARIANTS = {name_of_module(module): (module, tiny_config(module)) for module in modules()} | {
    "roberta with its padding": (roberta, tiny_config(roberta, pad_token_id=1, position_offset=2)),
    "biased modernbert": (modernbert, tiny_config(modernbert, **BIASED)),
    "stretched gte": (gte, tiny_config(gte, rope_factor=1.5)),
    "segmentless gte": (gte, tiny_config(gte, type_vocab_size=0)),
    "odd deberta": (deberta_v2, tiny_config(deberta_v2, **ODD_DEBERTA)),
    "odd deberta of today": (deberta_v2, tiny_config(deberta_v2, **ODD_DEBERTA, legacy=False)),
    "odd xlnet": (xlnet, ODD_XLNET),
}


@pytest.fixture(params=VARIANTS)
def variant(request):
    return VARIANTS[request.param]


def heads_to_try(module):
    """No head, and each that the family has; no class of Hugging Face has the order of sentences without masked words."""
    return [(), *(("mlm", "sop") if head == "sop" else (head,) for head in heads_of(module))]


def padded_rows(config, rng):
    """Rows of 13 and of 9 tokens, and their segments."""
    ids = rng.integers(5, config.vocab_size, (2, 13)).astype("int32")
    ids[1, 9:] = config.pad_token_id
    return ids, (np.arange(13) > 5) * np.ones_like(ids) * (config.type_vocab_size != 1)


def test_every_weight_is_counted_named_and_saved_bit_by_bit(variant, rng, tmp_path):
    module, config = variant
    ids, segments = padded_rows(config, rng)
    for heads in heads_to_try(module):
        model = random_model(config, heads, rng)
        shapes = {path: shape for path, (_, shape) in weights_of(config.encoder(), heads).items()}
        assert {weight.path: tuple(weight.shape) for weight in model.weights} == shapes
        assert config.num_params(heads) == model.count_params() == explain(model).total("params")
        if has_files(module):
            assert sum(row.parameters for row in weight_names(config, heads)) == model.count_params()
        for format in ("huggingface", "keras"):
            folder = tmp_path / "-".join([*heads, format])
            if format not in formats_of(module):
                with pytest.raises(ValueError, match="saved with format 'keras'"):
                    save_pretrained(model, folder, format)
                continue
            save_pretrained(model, folder, format)
            back = from_pretrained(folder)
            assert set(heads_of_model(back)) >= set(heads)
            # Without a rate of the classifier, a family's files have their default.
            assert back.config.replace(labels=config.labels, classifier_dropout=config.classifier_dropout) == config
            for path, value in values_of(model).items():
                np.testing.assert_array_equal(values_of(back)[path], value, err_msg=path)
            if heads_of_model(back) == heads:
                for one, other in zip(answers(model, ids, segments), answers(back, ids, segments), strict=True):
                    np.testing.assert_array_equal(one, other)


def test_padding_changes_no_answer(variant, rng):
    module, config = variant
    ids, segments = padded_rows(config, rng)
    for heads in heads_to_try(module):
        if module is xlnet and heads:
            continue  # it reads the last token: its own tests compare both sides
        model = random_model(config, heads, rng)
        both, alone = answers(model, ids, segments), answers(model, ids[1:, :9], segments[1:, :9])
        for padded, short in zip(both, alone, strict=True):
            np.testing.assert_allclose(padded[1] if padded.ndim == 2 else padded[1, :9], short[0], atol=5e-5)


@pytest.mark.slow(torch=True)
def test_its_onnx_export_gives_the_same_outputs(variant, rng):
    pytest.importorskip("onnx", reason="tox -e export has it")
    reference = pytest.importorskip("onnx.reference")
    from keras_bert_rebuild.export.onnx_model import onnx_model

    module, config = variant
    ids, segments = padded_rows(config, rng)
    for heads in heads_to_try(module):
        model = random_model(config, heads, rng)
        session = reference.ReferenceEvaluator(onnx_model(model))
        # XLNet reads the last token, and multiple choice the first after padding.
        turn = -1 if module is xlnet or "multiple_choice" in heads else 1
        for length in (13, 1):
            rows = {"input_ids": ids[:, :length][:, ::turn], "token_type_ids": segments[:, :length][:, ::turn]}
            outputs = session.run(None, {name: rows[name].astype("int64") for name in session.input_names})
            for output, expected in zip(outputs, answers(model, *rows.values()), strict=True):
                real = rows["input_ids"] != config.pad_token_id if expected.shape[:2] == (2, length) else slice(None)
                np.testing.assert_allclose(output[real], expected[real], atol=5e-5)


@pytest.mark.parametrize("module", modules(), ids=name_of_module)
def test_published_parameter_counts_follow_from_the_config(module):
    for name, _, count in module.SIZES:
        config, heads = released()[name]
        assert config.num_params(heads) == count, name


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (modernbert, "since modernbert has no such part"),
        (nomic_bert, "since nomic_bert has no such part"),
        (gte, "since gte has no such part"),
        (xlnet, "the only value for XLNet; got"),
    ],
)
@pytest.mark.parametrize("field", [{"embedding_size": 8}, {"num_hidden_groups": 1}, {"position_offset": 2}])
def test_fields_of_other_families_are_refused(module, said, field):
    with pytest.raises(ValueError, match=said):
        tiny_config(module).replace(**field)
