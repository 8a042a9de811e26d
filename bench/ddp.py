"""ddp.py SIZES STEPS: training steps of torch's DistributedDataParallel over gloo, in two processes of one thread each.

SIZES are L,C,H,T,B; each process has half of the batch. Prints the seconds of a step.
"""
import os
import sys
import tempfile
import time

import torch
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel

from torch_gpt import TrainingRun

RANKS, FIRST = 2, 2  # steps that are not timed


def train(rank, sizes, steps, place):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=RANKS)
    *model, batch = sizes
    run = TrainingRun((*model, batch // RANKS))
    run.loss_of = DistributedDataParallel(run.model)
    for step in range(FIRST + steps):
        if step == FIRST:
            distributed.barrier()
            begin = time.monotonic()
        run()
    distributed.barrier()
    if rank == 0:
        print((time.monotonic() - begin) / steps)
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        shape = [int(n) for n in sys.argv[1].split(",")]
        multiprocessing.spawn(train, (shape, int(sys.argv[2]), os.path.join(folder, "meeting")), nprocs=RANKS)
