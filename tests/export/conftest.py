"""Skip the tests of other runtimes where these are not installed: tox -e export has them."""

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

NEEDED = ("onnx", "onnxruntime", "openvino", "nncf", "pyarrow")
WITH_THEM = ["test_exported_retriever.py", "test_onnx_model.py", "test_served_tasks.py"]

collect_ignore = [] if all(map(importlib.util.find_spec, NEEDED)) else WITH_THEM
