"""`keras-bert pretrain` on a small corpus and two logical TensorFlow processors: `python two_replicas_run.py OPTIONS...`."""

import sys

from helpers import (
    hosts_run,
    two_replicas,  # noqa: F401  makes the two of one
)

if __name__ == "__main__":
    sys.exit(hosts_run.run(sys.argv[1:]))
