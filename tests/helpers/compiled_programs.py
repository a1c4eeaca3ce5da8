"""The programs that JAX compiles, as it reports them."""

import contextlib
import threading


@contextlib.contextmanager
def compiled_programs():
    """A list of the function and the thread of each program that JAX compiles within it, names without the threads' numbers."""
    import jax

    programs = []

    def noted(event, seconds, fun_name="", **facts):
        if event.endswith("/backend_compile_duration"):
            programs.append((fun_name, threading.current_thread().name.split("_")[0]))

    jax.monitoring.register_event_duration_secs_listener(noted)
    try:
        yield programs
    finally:
        jax.monitoring.unregister_event_duration_listener(noted)
