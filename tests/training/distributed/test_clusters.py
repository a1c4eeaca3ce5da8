"""Processes that a cluster starts find each other; when one is killed, the others end, and the same command resumes."""

import signal
import socket
import time

import numpy as np
import pytest
import yaml
from helpers.killed_runs import SETTINGS
from helpers.other_process import finish, start

from keras_bert_rebuild.recipes.metrics_table import read_curves
from keras_bert_rebuild.training.distributed.hosts import EXIT_CODE

pytestmark = [pytest.mark.backend("jax"), pytest.mark.slow]


def slurm(index, count, port):
    """The variables of the task with this index."""
    task = {"SLURM_JOB_ID": 1, "SLURM_STEP_NODELIST": "127.0.0.1", "SLURM_NTASKS": count, "SLURM_PROCID": index, "SLURM_LOCALID": 0}
    return {**task, "JAX_COORDINATOR_PORT": port}


def open_mpi(index, count, port):
    """The variables of the process with this rank."""
    ranks = {"OMPI_COMM_WORLD_SIZE": count, "OMPI_COMM_WORLD_RANK": index, "OMPI_COMM_WORLD_LOCAL_RANK": 0}
    return {**ranks, "OMPI_MCA_orte_hnp_uri": "4096.0;tcp://127.0.0.1:1", "JAX_COORDINATOR_PORT": port}


@pytest.mark.parametrize(("cluster", "count"), [(open_mpi, 2), (slurm, 4)])
def test_processes_of_a_cluster_train_together_end_together_and_resume(cluster, count, tmp_path):
    config = tmp_path / "settings.yaml"
    config.write_text(yaml.safe_dump(SETTINGS))

    def options(folder, *kind):
        return ["--settings", config, "--output", tmp_path / folder, "--distribute", *kind]

    def processes(death):
        """All of them, the last of which dies at that batch."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        deaths = [*[-1] * (count - 1), death]
        together = ["SIGKILL", *options("together", "sharded", "--hosts", "auto")]
        return [start("killed_runs.py", "host", deaths[i], *together, **cluster(i, count, port)) for i in range(count)]

    *others, killed = processes(12)
    assert finish(killed)[0] == -signal.SIGKILL
    began = time.monotonic()
    for code, _, err in map(finish, others):
        assert code == EXIT_CODE, err
        assert err.strip().splitlines()[-1].endswith("; the same command on all hosts resumes from the last checkpoint.")
        assert "Traceback" not in err
    assert time.monotonic() - began < 60

    ended = [finish(process) for process in processes(-1)]
    assert [code for code, _, _ in ended] == [0] * count, ended
    assert finish(start("killed_runs.py", "host", -1, "SIGKILL", *options("alone", "none")))[0] == 0
    losses = [[loss for _, loss in read_curves(tmp_path / folder)["loss"]] for folder in ("together", "alone")]
    np.testing.assert_allclose(*losses, rtol=0, atol=1e-5)
