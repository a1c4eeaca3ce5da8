"""An index that is made in a separate process, which kills itself.

`python killed_index.py CORPUS FOLDER DTYPE RESCORING CALL [overwrite]` kills itself instead of the CALL-th call of `os.fsync`; 0 is
never.
"""

import os
import signal
import sys

from helpers.small_search import WholeNumbers
from keras_bert_rebuild.search.index import Index


def die_at(call):
    """Kill this process at a call of `os.fsync`."""
    left, fsync = [call], os.fsync

    def dying(descriptor):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)

    os.fsync = dying


if __name__ == "__main__":
    corpus, folder, dtype, rescoring, call, *more = sys.argv[1:]
    die_at(int(call))
    Index.build(corpus, folder, WholeNumbers(), dtype=dtype, rescoring=rescoring, block=7, model="m", overwrite="overwrite" in more)
