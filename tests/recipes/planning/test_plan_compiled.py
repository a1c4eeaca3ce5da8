"""The compiler runs in a separate process, whose output is parsed; a step is lowered for a TPU without one."""

import importlib.util
import json
import re
import subprocess

import keras
import pytest

from keras_bert_rebuild import BertConfig, plan
from keras_bert_rebuild.recipes.planning.ask_compiler import CARDS, ask_compiler
from keras_bert_rebuild.recipes.planning.plan_devices import GPU_CARDS, gpus, tpu_slice
from keras_bert_rebuild.recipes.pretraining.pretrain_settings import PretrainSettings

ANSWER = {"all_reduce": 5, "arguments": 4, "temporaries": 3, "program": 2, "flops": 1.0}


@pytest.fixture
def child(monkeypatch):
    """The result of the process, and a list of the calls."""
    calls = []

    def run(command, **kwargs):
        calls.append((command, kwargs))
        return subprocess.CompletedProcess(command, *run.ends)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(subprocess, "run", run)
    run.calls = calls
    return run


def ask(topology=None):
    return ask_compiler(BertConfig(), PretrainSettings(batch_size=64), topology or tpu_slice("v5e:2x2"), 16)


def test_the_process_gets_config_settings_and_slice_on_jax_without_a_device(child):
    child.ends = (0, f"a note of a library\n{json.dumps(ANSWER)}", "")
    assert ask() == ANSWER
    ((command, how),) = child.calls
    assert command[1:] == ["-m", "keras_bert_rebuild.recipes.planning.device_compiler"]
    question = json.loads(how["input"])
    assert BertConfig.from_dict(question["config"]) == BertConfig()
    assert PretrainSettings.from_dict(question["settings"]) == PretrainSettings(batch_size=64)
    assert question["slice"] == "v5e:2x2"
    assert "gpu" not in question
    assert (how["env"]["KERAS_BACKEND"], how["env"]["JAX_PLATFORMS"]) == ("jax", "cpu")


def test_for_gpus_the_process_gets_the_description_of_one_and_its_examples(child):
    child.ends = (0, json.dumps(ANSWER), "")
    assert ask(gpus(8, "h100")) == ANSWER
    question = json.loads(child.calls[0][1]["input"])
    assert (question["capability"], question["examples"]) == (9.0, 16)
    assert "slice" not in question
    for part in ("core_count: 132 ", "device_memory_size: 80000000000 ", "{ major: 9 minor: 0 }", '"NVIDIA H100 SXM"'):
        assert part in question["gpu"]


def test_the_cards_that_can_be_compiled_for_are_those_of_the_plan():
    assert set(CARDS) < set(GPU_CARDS)


def test_the_result_is_part_of_the_plan(child):
    child.ends = (0, json.dumps(ANSWER), "")
    for devices in ({"tpu": "v5e:2x2"}, {"gpu": "h100"}, {"gpus": 8, "gpu": "a100-80"}):
        assert plan("tiny", **devices, compile=True).compiled == ANSWER
        assert plan("tiny", **devices).compiled is None


def test_a_step_that_does_not_fit_is_a_result(child):
    child.ends = (1, "", "Traceback\njax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory: 20G of 15.75G.\nnote")
    assert ask() == {"refused": "Ran out of memory: 20G of 15.75G."}


def test_a_compiler_that_fails_is_one_sentence(child):
    child.ends = (1, "", "Traceback\nINVALID_ARGUMENT: no such slice\n")
    with pytest.raises(ValueError, match="could not compile for TPU v5e, slice 2x2, 4 chips: INVALID_ARGUMENT: no such slice"):
        ask()
    child.ends = (1, "", "RuntimeError: in a layer\n\ncuDNN not found.\n  inputs=none")
    with pytest.raises(ValueError, match="could not compile for NVIDIA H100 SXM: cuDNN is not installed"):
        ask(gpus(1, "h100"))
    child.ends = (-9, "", "")
    with pytest.raises(ValueError, match="could not compile for TPU v5e, slice 2x2, 4 chips: it gave no reason"):
        ask()


@pytest.mark.parametrize(
    ("topology", "absent", "said"),
    [
        (tpu_slice("v5e:2x2"), "libtpu", r"TPU v5e, slice 2x2, 4 chips needs libtpu: pip install 'jax\[tpu\]'"),
        (gpus(1, "h100"), "jax(_cuda.*)?", r"H100 SXM needs jax and jax_cuda12_plugin: pip install 'jax\[cuda12\]'"),
    ],
    ids=["tpu", "gpu"],
)
def test_without_the_compiler_the_package_is_named(monkeypatch, topology, absent, said):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if re.fullmatch(absent, name) else name)
    with pytest.raises(ValueError, match=said):
        ask(topology)


# The training step is lowered for a TPU without a TPU and without its compiler.


CONFIG = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16
)


def lowered(**settings):
    """The exported step of a tiny model, and the state it takes."""
    import jax

    from keras_bert_rebuild.recipes.planning.device_compiler import make_compiled_model, step_arguments

    settings = PretrainSettings(batch_size=4, seq_len=8, dtype="mixed_bfloat16", **settings)
    keras.config.set_dtype_policy(settings.dtype)
    model = make_compiled_model(CONFIG, settings)
    arguments = step_arguments(model, 4, 8)
    return jax.export.export(jax.jit(model.train_step, donate_argnums=0), platforms=["tpu"])(*arguments), arguments


@pytest.mark.backend("jax")
@pytest.mark.parametrize(
    "settings", [{}, {"next_sentence": "none", "remat": True, "loss_chunk": 4, "optimizer": "lamb", "ema": 0.9}]
)
def test_the_step_of_fit_is_lowered_for_tpu(settings):
    exported, (state, (x, y)) = lowered(**settings)
    assert exported.platforms == ("tpu",)
    text = exported.mlir_module()
    assert "stablehlo.dot_general" in text
    assert "bf16" in text
    heads = 1 if settings else 2
    assert [tuple(ids.shape) for ids in x] == [(4, 8)] * 3
    assert [tuple(ids.shape) for ids in (y if heads == 2 else [y])] == [(4, 8, 1), (4, 1)][:heads]
    # Weights, dropout seeds and optimizer state are returned in their shapes.
    shapes = [[(tuple(array.shape), str(array.dtype)) for array in part] for part in state[:3]]
    out = keras.tree.pack_sequence_as(exported.out_tree.unflatten([0] * len(exported.out_avals)), list(exported.out_avals))
    assert [[(tuple(array.shape), str(array.dtype)) for array in part] for part in out[1][:3]] == shapes


@pytest.mark.backend("jax")
def test_the_sums_over_devices_are_read_from_the_text_of_a_program():
    from keras_bert_rebuild.recipes.planning.device_compiler import all_reduced_bytes

    program = """
      %add.1 = f32[100,100]{1,0:T(8,128)} add(%a, %b)
      %all-reduce.1 = (f32[2,768]{1,0:T(2,128)}, /*index=5*/bf16[768]{0:T(256)(128)(2,1)}) all-reduce(%x, %y), replica_groups={}
      ROOT %all-reduce.2 = s32[]{:T(128)} all-reduce(%z), to_apply=%sum
    """
    assert all_reduced_bytes(program) == 2 * 768 * 4 + 768 * 2 + 4
