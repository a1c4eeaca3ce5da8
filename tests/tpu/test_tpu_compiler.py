"""The real TPU compiler: the training step beside its estimate, and attention by segment ids. Minutes each: tox -e compilers."""

from types import SimpleNamespace

import pytest

from keras_bert_rebuild import BertConfig, plan
from keras_bert_rebuild.recipes.planning.plan_devices import SLICES

BF16 = {"dtype": "mixed_bfloat16"}
TWO_BLOCKS = BertConfig(num_hidden_layers=2)


def compiled(model, slice_, batch_size, seq_len=128, **settings):
    made = plan(model, tpu=slice_, batch_size=batch_size, seq_len=seq_len, compile=True, **settings)
    print(f"{made.devices}, batch {batch_size}: estimate {made.memory.total / 1e6:,.0f} MB, compiler {made.compiled}")
    return made


def check_memory(made):
    """The estimate is within 15 % of the compiler's memory, and the state has the counted size."""
    said = made.compiled
    assert made.memory.total == pytest.approx(said["arguments"] + said["temporaries"], rel=0.15)
    assert made.memory.parameters + made.memory.optimizer == pytest.approx(said["arguments"], rel=0.01)


def check(made):
    """Check memory, and operations and gradients of one chip."""
    check_memory(made)
    assert made.flops / made.device_count == pytest.approx(made.compiled["flops"], rel=0.15)
    assert made.all_reduce_bytes == pytest.approx(made.compiled["all_reduce"], rel=0.01)


@pytest.mark.parametrize("batch_size", [64, 256, 1024])
def test_bert_base_compiles_for_4_chips_and_needs_what_was_estimated(batch_size):
    check(compiled("base", "v5e:2x2", batch_size, **BF16))


@pytest.mark.parametrize(
    ("model", "slice_", "batch_size"), [("base", "v5e:4x4", 1024), ("large", "v5e:2x2", 128), ("large", "v5e:4x4", 256)]
)
def test_larger_models_and_slices_compile_and_need_what_was_estimated(model, slice_, batch_size):
    check(compiled(model, slice_, batch_size, **BF16))


@pytest.mark.parametrize(
    ("batch_size", "seq_len", "settings"),
    [(128, 512, BF16), (256, 128, {"dtype": "float32"}), (256, 128, {**BF16, "remat": True, "loss_chunk": 256})],
    ids=["length 512", "float32", "rematerialised"],
)
def test_two_blocks_with_other_lengths_and_options_need_what_was_estimated(batch_size, seq_len, settings):
    check_memory(compiled(TWO_BLOCKS, "v5e:2x2", batch_size, seq_len, **settings))


def test_sharded_weights_take_an_eighth_of_a_chip_and_need_what_was_estimated():
    settings = {"distribute": "sharded", **BF16}
    made = compiled(TWO_BLOCKS, "v5e:2x4", 256, **settings)
    whole = plan(TWO_BLOCKS, tpu="v5e:2x4", batch_size=256, **BF16).memory
    assert made.compiled["arguments"] == pytest.approx((whole.parameters + whole.optimizer) / 8, rel=0.1)
    assert made.memory.total == pytest.approx(made.compiled["arguments"] + made.compiled["temporaries"], rel=0.2)


@pytest.mark.parametrize("chip", ["v5e", "v6e"])
def test_a_single_chip_compiles_and_sums_nothing(chip):
    assert compiled("tiny", f"{chip}:1x1", 8, 16).compiled["all_reduce"] == 0


def test_v5p_compiles_in_three_dimensions():
    assert compiled("tiny", "v5p:2x2x2", 64, 16).compiled["all_reduce"] > 0


def test_what_does_not_fit_is_refused_by_both():
    made = compiled("tiny", "v5e:2x2", 2_000_000)
    assert not made.fits
    assert "memory" in made.compiled["refused"]


def test_the_compiler_knows_every_slice():
    from jax.experimental import topologies

    from keras_bert_rebuild.recipes.planning.device_compiler import ENVIRONMENT

    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        for chip in ("v5e", "v5p", "v6e"):
            for shape in SLICES[chip][1:]:
                name = f"{chip}:{'x'.join(map(str, shape))}"
                devices = topologies.get_topology_desc(platform="tpu", topology_name=name).devices
                places = {tuple(device.coords) for device in devices}
                assert len(devices) == len(places) == plan("tiny", tpu=name, batch_size=4096).device_count


@pytest.fixture
def slice_devices(monkeypatch):
    """A function from the name of a slice to its devices."""
    from jax.experimental import topologies

    from keras_bert_rebuild.recipes.planning.device_compiler import ENVIRONMENT

    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    host = {"chips_per_host_bounds": (1, 1, 1)}
    return lambda name: (
        topologies.get_topology_desc(platform="tpu", topology_name=name, **(host if name.endswith(":1x1") else {})).devices
    )


def compiled_attention(devices, dtype, length, width, sequences):
    """The program of attention and its gradients for eight texts over these devices, and the bytes of its temporary arrays."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from keras_bert_rebuild.kernels.jax_attention import splash_attention

    mesh = Mesh(np.array(devices), ("batch",))
    split = NamedSharding(mesh, PartitionSpec("batch"))
    x = jax.ShapeDtypeStruct((8, length, 12, width), jnp.dtype(dtype), sharding=split)
    mask = jax.ShapeDtypeStruct((8, length), jnp.dtype("int32" if sequences else "bool"), sharding=split)

    # What a `keras.distribution.DataParallel` over these chips says.
    parallel = SimpleNamespace(batch_dim_name="batch", device_mesh=SimpleNamespace(backend_mesh=mesh))

    def gradients(query, key, value, mask):
        loss = lambda *tensors: splash_attention(*tensors, mask).astype("float32").sum()  # noqa: E731
        return jax.value_and_grad(loss, argnums=(0, 1, 2))(query, key, value)

    with pytest.MonkeyPatch.context() as patch:
        if len(devices) > 1:
            patch.setattr("keras_bert_rebuild.kernels.jax_devices._data_parallel", lambda: parallel)
        program = jax.jit(gradients).trace(x, x, x, mask).lower(lowering_platforms=("tpu",)).compile()
    return program.as_text(), program.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("slice_", ["v5e:1x1", "v5e:2x2"])
@pytest.mark.parametrize("sequences", [False, True], ids=["padding", "sequences"])
@pytest.mark.parametrize(("dtype", "length", "width"), [("bfloat16", 512, 64), ("float32", 200, 64), ("bfloat16", 128, 32)])
def test_splash_compiles_and_stores_no_scores(dtype, length, width, sequences, slice_, slice_devices):
    devices = slice_devices(slice_)
    program, temporary = compiled_attention(devices, dtype, length, width, sequences)
    assert "splash_mha" in program
    # Scores in float32 would take this much.
    assert temporary < 8 // len(devices) * 12 * length**2 * 4 or length < 512
