"""The compiler runs in a separate process, whose output is parsed."""

import importlib.util
import json
import subprocess

import pytest

from keras_bert_rebuild import BertConfig, plan
from keras_bert_rebuild.recipes.planning.plan import ask_tpu_compiler
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


def ask():
    return ask_tpu_compiler(BertConfig(), PretrainSettings(batch_size=64), "v5e:2x2")


def test_the_process_gets_config_settings_and_slice_on_jax_without_a_device(child):
    child.ends = (0, f"a note of a library\n{json.dumps(ANSWER)}", "")
    assert ask() == ANSWER
    ((command, how),) = child.calls
    assert command[1:] == ["-m", "keras_bert_rebuild.recipes.planning.tpu_compiler"]
    question = json.loads(how["input"])
    assert BertConfig.from_dict(question["config"]) == BertConfig()
    assert PretrainSettings.from_dict(question["settings"]) == PretrainSettings(batch_size=64)
    assert question["slice"] == "v5e:2x2"
    assert (how["env"]["KERAS_BACKEND"], how["env"]["JAX_PLATFORMS"]) == ("jax", "cpu")


def test_the_result_is_part_of_the_plan(child):
    child.ends = (0, json.dumps(ANSWER), "")
    assert plan("tiny", tpu="v5e:2x2", compile=True).compiled == ANSWER
    assert plan("tiny", tpu="v5e:2x2").compiled is None


def test_a_step_that_does_not_fit_is_a_result(child):
    child.ends = (1, "", "Traceback\njax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory: 20G of 15.75G.\nnote")
    assert ask() == {"refused": "Ran out of memory: 20G of 15.75G."}


def test_a_compiler_that_fails_is_one_sentence(child):
    child.ends = (1, "", "Traceback\nINVALID_ARGUMENT: no such slice\n")
    with pytest.raises(ValueError, match="could not compile for v5e:2x2: INVALID_ARGUMENT: no such slice"):
        ask()
    child.ends = (-9, "", "")
    with pytest.raises(ValueError, match="could not compile for v5e:2x2: it gave no reason"):
        ask()


def test_without_the_compiler_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "libtpu" else name)
    with pytest.raises(ValueError, match=r"compiling needs libtpu: pip install 'jax\[tpu\]'"):
        ask()
