"""Commands in a process of their own, in which every connection and every look-up of a host is noted."""

import json
import os
import subprocess
import sys

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
