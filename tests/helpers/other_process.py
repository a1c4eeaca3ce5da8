"""Python in a separate process, with as many devices as a test needs, its compiler options, and its connections."""

import json
import os
import subprocess
import sys
from importlib import metadata


def quick_flags(jax_version):
    """The value of `XLA_FLAGS` for a version of JAX; None for XLA in TensorFlow.

    XLA stops a process that names an option it does not know: JAX 0.12 no longer knows the second one, which 0.10 does.
    """
    known = jax_version is None or tuple(map(int, jax_version.split(".")[:2])) < (0, 11)
    return "--xla_backend_optimization_level=0" + known * " --xla_cpu_use_fusion_emitters=false"


def installed_jax():
    """The version of JAX, None if it is not installed."""
    try:
        return metadata.version("jax")
    except metadata.PackageNotFoundError:
        return None


QUICK = quick_flags(installed_jax())


def start(script, *arguments, devices=1, **variables):
    """Start `python script arguments`, with more variables of the environment.

    Returns:
        A `subprocess.Popen` whose output is text. Several devices are processors on any machine.
    """
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([os.path.dirname(os.path.dirname(__file__)), *sys.path]),
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} {QUICK}",
    }
    environment |= {name: str(value) for name, value in variables.items()}
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


def printed_json(script, *arguments, devices=1):
    """Run `python script arguments` to its end; what its last line has, as JSON."""
    code, out, err = finish(start(script, *arguments, devices=devices))
    assert code == 0, err
    return json.loads(out.splitlines()[-1])


# Also run in the processes that it starts.
HOOK = """
import os, sys
def note(event, arguments, file=os.environ["NOTED"]):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"):
        with open(file, "a") as noted:
            noted.write(f"{event} {arguments!r:.200}\\n")
sys.addaudithook(note)
"""
RUN = """
import json, sys
from keras_bert_rebuild.cli.main import main
for arguments in json.loads(sys.argv[1]):
    code = main(arguments)
    assert code == 0, arguments
"""


def connections_of(folder, *commands):
    """Run commands of `keras-bert`, lists of words, one after another.

    Returns:
        The connections, as text, and the files that were written to the home folder.
    """
    for name in ("site", "home"):
        (folder / name).mkdir()
    (folder / "site" / "sitecustomize.py").write_text(HOOK)
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "KERAS_HOME")}
    path = os.pathsep.join([str(folder / "site"), *sys.path])
    environment |= {"HOME": str(folder / "home"), "NOTED": str(folder / "noted"), "PYTHONPATH": path}
    command = [sys.executable, "-c", RUN, json.dumps([[str(word) for word in words] for words in commands])]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    assert run.returncode == 0, run.stderr[-2000:]
    noted = (folder / "noted").read_text() if (folder / "noted").exists() else ""
    written = [str(file.relative_to(folder / "home")) for file in (folder / "home").rglob("*") if file.is_file()]
    return noted, [name for name in written if not name.startswith((".keras/", ".cache/"))]
