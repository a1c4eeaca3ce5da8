"""Attention by segment ids under the real TPU compiler, with its gradients, on one chip and split over four."""

from types import SimpleNamespace

import pytest


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


def compiled(devices, dtype, length, width, sequences):
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
            patch.setattr("keras_bert_rebuild.kernels.jax_attention._data_parallel", lambda: parallel)
        program = jax.jit(gradients).trace(x, x, x, mask).lower(lowering_platforms=("tpu",)).compile()
    return program.as_text(), program.memory_analysis().temp_size_in_bytes


@pytest.mark.parametrize("slice_", ["v5e:1x1", "v5e:2x2"])
@pytest.mark.parametrize("sequences", [False, True], ids=["padding", "sequences"])
@pytest.mark.parametrize(("dtype", "length", "width"), [("bfloat16", 512, 64), ("float32", 200, 64), ("bfloat16", 128, 32)])
def test_splash_compiles_and_stores_no_scores(dtype, length, width, sequences, slice_, slice_devices):
    devices = slice_devices(slice_)
    program, temporary = compiled(devices, dtype, length, width, sequences)
    assert "splash_mha" in program
    # Scores in float32 would take this much.
    assert temporary < 8 // len(devices) * 12 * length**2 * 4 or length < 512
