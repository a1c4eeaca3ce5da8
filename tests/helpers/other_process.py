"""Python in a separate process, with as many devices as a test needs."""

import os
import subprocess
import sys

from helpers.quick_compiler import QUICK


def start(script, *arguments, devices=1):
    """Start `python script arguments`; a `subprocess.Popen` whose output is text. Several devices are processors on any machine."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([os.path.dirname(os.path.dirname(__file__)), *sys.path]),
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} {QUICK}",
    }
    if devices > 1:
        environment |= {"JAX_PLATFORMS": "cpu"}
    command = [sys.executable, os.path.join(os.path.dirname(__file__), script), *map(str, arguments)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process, seconds=300):
    """Wait for a process; its return code, and the text on both outputs."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it should have ended in {seconds} seconds:\n{out}\n{err}") from None
    return process.returncode, out, err
