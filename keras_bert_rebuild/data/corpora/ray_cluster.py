"""Tasks on the workers of a Ray cluster: results in order, few tasks in memory, and again what a worker that died had to do."""

import contextlib
import importlib
import itertools
import os
import socket
import sys
from collections import Counter, deque
from pathlib import Path

from keras_bert_rebuild.version import __version__

# How often a task is sent whose workers die.
TRIES = 4
# Tasks of a worker: one that it does, and one that is on its way meanwhile.
AT_ONCE = 2
# Tasks per worker that may be begun or done before the result of an earlier one is there.
AHEAD = 4
# Seconds until it is said that no worker has begun.
PATIENCE = 30
# Settings of this process that its workers take over, by their beginnings.
SETTINGS = ("KERAS_", "OMP_", "MKL_", "JAX_", "XLA_", "TF_", "HF_")


class RayCluster:
    """A cluster for `mapped`. Its nodes have this version of the package, and the folders of a task under the same paths.

    Args:
        address: "auto" for the cluster that this machine is in, or HOST:PORT of its head.
        processes: number of workers; None for one per processor core, and with a model for one per GPU. Without GPUs that is one
            per node, with as many threads as the node has cores, like the one process of a single machine.
        with_model: whether a model does the tasks, which every worker loads once.
        setup: for workers with a model, a module-level function and its arguments, to be called first; None for nothing.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ConnectionError: there is no cluster at the address.
    """

    def __init__(self, address="auto", processes=None, with_model=False, setup=None):
        self.processes, self.with_model, self.setup = processes, with_model, setup
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ModuleNotFoundError:
            raise ModuleNotFoundError('Ray is not installed: pip install "keras-bert-rebuild[ray]".') from None
        self.ray, self._connected = ray, not ray.is_initialized()
        if self._connected:
            _check_reachable(address)
            try:
                ray.init(address, log_to_driver=False, logging_level="error")
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise ConnectionError(f"expected a Ray cluster at {address}, as `ray start` begins one: {error}") from None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._connected:
            self.ray.shutdown()

    def mapped(self, make, arguments, tasks):
        """Yield the results of tasks in order; arguments and errors as for the function `mapped`."""
        tasks = iter(tasks)
        first = list(itertools.islice(tasks, 1))  # which may be what makes the folder that workers read from
        if not first:
            return
        tasks = enumerate(itertools.chain([first.pop()], tasks))
        count, resources = self._workers()
        settings = {name: value for name, value in os.environ.items() if name.startswith(SETTINGS)}
        if self.with_model:
            from keras_bert_rebuild.kernels.traits import name_of_backend

            settings["KERAS_BACKEND"] = name_of_backend()
        folders, calls = (os.getcwd(), str(Path(__file__).parents[3])), [(_name(make), arguments)]
        calls += [] if self.setup is None else [(_name(self.setup[0]), self.setup[1:])]
        # By its code: the import of this module would be that of Keras and its backend.
        self.ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
        worker = self.ray.remote(_Worker).options(scheduling_strategy="SPREAD", **resources)
        pool = _Pool(self.ray, worker, (folders, __version__, settings, calls, self.with_model), count)
        returned, results = 0, {}
        try:
            while True:
                while tasks is not None and pool.has_room() and pool.sent - returned < AHEAD * count:
                    numbered = next(tasks, None)
                    if numbered is None:
                        tasks = None
                    else:
                        pool.add(*numbered)
                    del numbered  # free it before the next one is made
                if tasks is None and returned == pool.sent:
                    return
                results.update(pool.results())
                while returned in results:
                    yield results.pop(returned)
                    returned += 1
        finally:
            pool.close()

    def _workers(self):
        """The number of workers, and what each takes of a node."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        cores = [int(node["CPU"]) for node in nodes if node.get("CPU", 0) >= 1]
        gpus = int(sum(node.get("GPU", 0) for node in nodes))
        if not self.with_model:
            return self.processes or max(sum(cores), 1), {"num_cpus": 1}
        if gpus:
            return self.processes or gpus, {"num_cpus": 1, "num_gpus": 1}
        least = min(cores, default=1)
        return self.processes or max(sum(number // least for number in cores), 1), {"num_cpus": least}


def _check_reachable(address):
    """Refuse a head that does not answer, for which Ray would wait for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=10).close()
        except OSError as error:
            raise ConnectionError(f"expected a Ray cluster at {address}: {error.strerror or error}.") from None


class _Pool:
    """Workers, one of which begins for each that dies. Ray's own restarts would wait for a place while others are idle."""

    def __init__(self, ray, worker, start, count):
        self.ray, self.worker, self.start = ray, worker, start
        self.workers, self.idle, self.running = set(), deque(), {}  # running: by future result the worker and the task's number
        self.tasks, self.waiting, self.tries, self.sent = {}, deque(), Counter(), 0
        self.has_begun = False
        for _ in range(count):
            self._begin()

    def has_room(self):
        """Whether a worker waits for a task."""
        return len(self.idle) > len(self.waiting)

    def add(self, number, task):
        """Take a task, whose copy stays with this machine until its result is there."""
        self.tasks[number] = self.ray.put(task)
        self.waiting.append(number)
        self.sent += 1

    def results(self):
        """Send what waits, and wait for results; returns some by number."""
        while self.idle and self.waiting:
            worker, number = self.idle.popleft(), self.waiting.popleft()
            self.running[worker.run.remote(self.tasks[number])] = worker, number
        done, _ = self.ray.wait(list(self.running), timeout=PATIENCE)
        if not done and not self.has_begun:
            self.has_begun = True
            print("waiting until the Ray cluster has free resources for a worker", file=sys.stderr)
        results = {}
        for reference in done:
            worker, number = self.running.pop(reference)
            try:
                is_done, result = self.ray.get(reference)
            except self.ray.exceptions.RayTaskError as error:
                raise error.cause from None
            except self.ray.exceptions.RayError as error:
                self._lost(worker, number, error)
                continue
            if not is_done:
                raise result
            self.has_begun = True
            if number is not None:
                results[number] = result
                del self.tasks[number]
            if worker in self.workers:
                self.idle.extend([worker] * (AT_ONCE if number is None else 1))
        return results

    def close(self):
        """End all workers."""
        for worker in self.workers:
            with contextlib.suppress(self.ray.exceptions.RayError):
                self.ray.kill(worker)

    def _begin(self):
        worker = self.worker.remote()
        self.workers.add(worker)
        self.running[worker.start.remote(*self.start)] = worker, None

    def _lost(self, worker, number, error):
        """Send the task of a worker that died again, before all others, and begin another worker."""
        self.tries[number] += 1
        if self.tries[number] == TRIES * (len(self.workers) if number is None else 1):
            what = "beginning" if number is None else f"task {number:,}"
            raise ChildProcessError(f"workers of the Ray cluster died {self.tries[number]} times at {what}: {_first_line(error)}")
        if number is not None:
            self.waiting.appendleft(number)
        if worker in self.workers:
            self.workers.remove(worker)
            self.idle = deque(each for each in self.idle if each is not worker)
            with contextlib.suppress(self.ray.exceptions.RayError):
                self.ray.kill(worker)
            self._begin()


def _name(function):
    return function.__module__, function.__qualname__


def _first_line(error):
    return str(error).strip().partition("\n")[0]


class _Worker:
    """Does tasks, in a process of a node."""

    def start(self, folders, version, settings, calls, with_model):
        """Make the function that does them, by the first of some calls; returns `(True, None)` or `(False, error)`."""
        os.environ.update(settings)
        here, package = folders  # of the command
        if os.path.isdir(here):
            os.chdir(here)
        if os.path.isdir(package):
            sys.path.insert(0, package)
        return self._answer(lambda: self._make(version, calls, with_model))

    def run(self, task):
        """Returns `(True, result)` or `(False, error)`."""
        return self._answer(lambda: self.work(task))

    def _make(self, version, calls, with_model):
        spec = importlib.util.find_spec("keras_bert_rebuild")
        if spec is None:
            raise ValueError("every node must have the package keras-bert-rebuild")
        if not with_model:  # the package's own `__init__` would import Keras
            package = type(sys)("keras_bert_rebuild")
            package.__path__ = list(spec.submodule_search_locations)
            sys.modules["keras_bert_rebuild"] = package
        installed = importlib.import_module("keras_bert_rebuild.version").__version__
        if installed != version:
            raise ValueError(f"every node must have keras-bert-rebuild {version}; one has {installed}")
        for (module, name), arguments in reversed(calls):
            for path in (argument for argument in arguments if isinstance(argument, Path)):
                (path if path.exists() else path.parent).stat()  # of a checkpoint it may be the beginning of names
            self.work = getattr(importlib.import_module(module), name)(*arguments)

    def _whole(self, results):
        """Results as a list; arrays of one shape as one array, since Ray sends thousands of small ones slowly."""
        import numpy as np

        results = list(results)
        alike = all(isinstance(each, np.ndarray) for each in results) and len({(each.shape, each.dtype) for each in results}) == 1
        return np.stack(results) if alike else results

    def _answer(self, call):
        try:
            result = call()
            return True, self._whole(result) if hasattr(result, "__next__") else result
        except OSError as error:
            what = str(error) if error.filename is None else f"{error.filename}: {error.strerror}"
            return False, OSError(f"{what}, on the node {socket.gethostname()}: all nodes must have the same folders.")
        except (ValueError, MemoryError) as error:
            return False, error
