"""Another device in the eyes of the conditions of JAX's kernels; what runs, runs where it did."""

from types import SimpleNamespace

PROCESSOR = SimpleNamespace(platform="cpu", client=SimpleNamespace(platform_version="cpu"))


def gpu(compute_capability="9.0"):
    """A GPU of NVIDIA's."""
    client = SimpleNamespace(platform_version="cuda 12090")
    return SimpleNamespace(platform="gpu", compute_capability=compute_capability, client=client)


def pretend(monkeypatch, device):
    """From now on the process has one device, this one."""
    monkeypatch.setattr("jax.local_devices", lambda *arguments, **options: [device])
