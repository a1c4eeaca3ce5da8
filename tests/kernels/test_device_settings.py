"""What a command sets for its process: the precision of products, and where JAX keeps compiled programs."""

import os
import stat
import subprocess
import sys

import keras
import numpy as np
import pytest

from keras_bert_rebuild.kernels import device_settings, traits
from keras_bert_rebuild.kernels.device_settings import (
    MATMUL_PRECISIONS,
    cache_folder,
    compile_quickly,
    keep_compiled_programs,
    set_matmul_precision,
)

pytestmark = pytest.mark.backend

BACKEND = keras.backend.backend()


def precision():
    """What the backend has for float32."""
    if BACKEND == "jax":
        import jax

        return jax.config.jax_default_matmul_precision
    if BACKEND == "torch":
        import torch

        return torch.get_float32_matmul_precision()
    import tensorflow as tf

    return tf.config.experimental.tensor_float_32_execution_enabled()


@pytest.fixture
def restored():
    """The settings of the test process, restored after the test."""
    before = precision()
    yield
    if BACKEND == "jax":
        import jax

        jax.config.update("jax_default_matmul_precision", before)
    elif BACKEND == "torch":
        import torch

        torch.set_float32_matmul_precision(before)
    else:
        import tensorflow as tf

        tf.config.experimental.enable_tensor_float_32_execution(before)


def test_each_word_is_a_setting_of_the_backend(restored):
    words = {"tensorflow": {"high": True, "highest": False}}.get(BACKEND, {"high": "high", "highest": "highest"})
    for word, expected in words.items():
        set_matmul_precision(word)
        assert precision() == expected
        set_matmul_precision("default")
        assert precision() == expected  # nothing is set


def test_an_unknown_word_is_reported_in_a_sentence():
    with pytest.raises(ValueError, match="one of default, high, highest; got 'exact'"):
        set_matmul_precision("exact")


@pytest.mark.skipif(traits.runs_on_accelerator(), reason="an accelerator multiplies otherwise")
def test_a_processor_multiplies_the_same_with_every_word(restored, rng):
    one, other = rng.normal(size=(2, 64, 64)).astype("float32")
    products = []
    for word in MATMUL_PRECISIONS:
        set_matmul_precision(word)
        products.append(keras.ops.convert_to_numpy(keras.ops.matmul(one, other)))
    for product in products[1:]:
        np.testing.assert_array_equal(product, products[0])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
def test_the_folder_is_that_of_the_user(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    for given in ("", "relative"):  # the specification of XDG ignores relative paths
        monkeypatch.setenv("XDG_CACHE_HOME", given)
        assert cache_folder() == tmp_path / ".cache" / "keras-bert" / "jax"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "elsewhere"))
    assert cache_folder() == tmp_path / "elsewhere" / "keras-bert" / "jax"


@pytest.fixture
def threefry(monkeypatch):
    """JAX's setting, False before the test and restored after it."""
    import jax

    if not hasattr(jax.config, device_settings.THREEFRY_KERNEL):
        pytest.skip("this release of JAX has no such setting")
    before = jax.config.jax_threefry_gpu_kernel_lowering
    monkeypatch.delenv(device_settings.THREEFRY_KERNEL.upper(), raising=False)
    jax.config.update(device_settings.THREEFRY_KERNEL, False)
    yield lambda: jax.config.jax_threefry_gpu_kernel_lowering
    jax.config.update(device_settings.THREEFRY_KERNEL, before)


@pytest.mark.skipif(BACKEND != "jax", reason="a setting of JAX")
def test_random_bits_are_those_of_the_other_lowering(threefry, monkeypatch, rng):
    import jax

    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_triton_gemm=false")
    data = rng.integers(0, 2**32, 2, dtype="uint32")
    draw = lambda: np.asarray(jax.jit(lambda data: jax.random.bits(jax.random.wrap_key_data(data), (2, 1000)))(data))  # noqa: E731
    expected = draw()
    compile_quickly()
    assert threefry()
    np.testing.assert_array_equal(draw(), expected)


@pytest.mark.skipif(BACKEND != "jax", reason="a setting of JAX")
def test_a_setting_of_the_user_stays(threefry, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_triton_gemm=false")
    monkeypatch.setenv(device_settings.THREEFRY_KERNEL.upper(), "false")
    compile_quickly()
    assert not threefry()


@pytest.mark.skipif(BACKEND != "jax", reason="a flag of JAX's compiler")
def test_only_a_jax_that_knows_the_flag_gets_it(monkeypatch):
    import jax

    monkeypatch.setattr(device_settings, "THREEFRY_KERNEL", "jax_no_such_setting")
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    monkeypatch.setattr(jax, "__version__", "1.0.0")
    compile_quickly()
    assert os.environ["XLA_FLAGS"] == "--xla_cpu_enable_fast_math=false"
    monkeypatch.setattr(jax, "__version__", "0.11.2")
    for _ in range(2):
        compile_quickly()
    assert os.environ["XLA_FLAGS"] == "--xla_cpu_enable_fast_math=false --xla_gpu_enable_triton_gemm=false"
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_enable_triton_gemm=true")
    compile_quickly()
    assert os.environ["XLA_FLAGS"] == "--xla_gpu_enable_triton_gemm=true"


@pytest.mark.slow(torch=True)
@pytest.mark.skipif(BACKEND != "jax", reason="a flag of JAX's compiler")
def test_the_installed_jax_knows_the_flag_and_reads_it_after_the_import():
    import jax

    program = (
        "from keras_bert_rebuild.kernels import device_settings\n"
        "device_settings.compile_quickly()\n"
        "import jax, os, sys\n"
        "os.environ['XLA_FLAGS'] = os.environ.get('XLA_FLAGS', '') + ' ' + ' '.join(sys.argv[1:])\n"
        "print(os.environ['XLA_FLAGS'], jax.jit(lambda x: x @ x)(jax.numpy.ones((2, 2))).sum())\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"} | {"PYTHONPATH": ":".join(sys.path)}
    run = lambda *flags: subprocess.run(  # noqa: E731
        [sys.executable, "-c", program, *flags], env=environment, capture_output=True, text=True, check=False
    )
    if jax.__version__.rpartition(".")[0] not in device_settings.CUBLAS_ALONE_IN:
        pytest.skip("nobody has tried this release of JAX")
    assert run().stdout.split() == ["--xla_gpu_enable_triton_gemm=false", "8.0"]
    assert run("--xla_no_such_flag=1").returncode != 0  # so the flags were not read before


PROGRAM = """
import sys
import jax
from keras_bert_rebuild.kernels import device_settings
from keras_bert_rebuild.kernels.device_settings import keep_compiled_programs
assert not jax.config.jax_compilation_cache_dir  # the import has changed nothing
print(keep_compiled_programs())
if len(sys.argv) > 1:
    device_settings.keep_no_programs()
print(jax.config.jax_compilation_cache_dir)
jax.jit(lambda x: jax.numpy.sin(x) @ x)(jax.numpy.ones((3, 3)))
"""


@pytest.mark.slow(torch=True)
@pytest.mark.skipif(BACKEND != "jax", reason="other backends have no such programs")
def test_programs_are_kept_in_a_private_folder(tmp_path):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path), "JAX_COMPILATION_CACHE_DIR": "", "PYTHONPATH": ":".join(sys.path)}
    run = lambda *words: subprocess.check_output([sys.executable, "-c", PROGRAM, *words], env=environment, text=True)  # noqa: E731
    folder = tmp_path / "keras-bert" / "jax"
    run("none")
    assert not list(folder.iterdir())
    assert run().split() == ["None", str(folder)]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    programs = {path.name for path in folder.iterdir() if path.name.endswith("-cache")}
    assert programs
    run()
    assert {path.name for path in folder.iterdir() if path.name.endswith("-cache")} == programs


@pytest.mark.skipif(BACKEND != "jax", reason="other backends have no such programs")
def test_a_folder_that_cannot_be_used_is_said_and_stops_nothing(monkeypatch, tmp_path):
    disabled = []
    monkeypatch.setattr(device_settings, "keep_no_programs", lambda: disabled.append(True))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    (tmp_path / "file").write_text("")
    assert "file" in keep_compiled_programs(tmp_path / "file" / "jax")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert "can be written by others" in keep_compiled_programs(tmp_path / "open")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "open"))
    assert "can be written by others" in keep_compiled_programs()
    assert len(disabled) == 3
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    monkeypatch.setattr(device_settings.Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home folder")))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert "no home folder" in keep_compiled_programs()


@pytest.mark.parametrize("named", ["private", "gs://bucket/programs"])
def test_a_folder_that_the_user_named_stays(monkeypatch, tmp_path, named):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", named)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert keep_compiled_programs() is None
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path / "gs:").exists()


PLANTED = """
import os, jax
from keras_bert_rebuild.kernels.device_settings import keep_compiled_programs
print(keep_compiled_programs())
jax.jit(lambda x: jax.numpy.sin(x) @ x)(jax.numpy.ones((3, 3)))
print(len(os.listdir(os.environ["JAX_COMPILATION_CACHE_DIR"])))
"""


@pytest.mark.slow(torch=True)
@pytest.mark.skipif(BACKEND != "jax", reason="other backends have no such programs")
def test_jax_reads_and_writes_nothing_in_a_named_folder_that_others_can_write_to(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "open"), "PYTHONPATH": ":".join(sys.path)}
    environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    said = subprocess.check_output([sys.executable, "-c", PLANTED], env=environment, text=True).splitlines()
    assert said == [f"{tmp_path / 'open'} belongs to another user or can be written by others", "0"]
