"""context_parallel.py H,T,D forward|backward CALLS: torch's own causal ring attention over gloo, in two processes of one thread each.

torch's context_parallel takes CUDA's kernels alone, and on a CPU leaves every rank with its own keys. So its ring is called directly here,
with torch's kernel for CPUs: the same loop, the same balanced halves. Prints the seconds of every call.
"""
import os
import sys
import tempfile
import time

import torch
from torch import distributed, multiprocessing
from torch.distributed.tensor.experimental._context_parallel import _attention as ring

RANKS, ATEN = 2, torch.ops.aten
FORWARD, BACKWARD = ATEN._scaled_dot_product_flash_attention_for_cpu, ATEN._scaled_dot_product_flash_attention_for_cpu_backward
ROWS = 2  # the axis of a sequence


def call(group, q, k, v, backward):
    output, lse = ring._templated_ring_attention(group, ROWS, FORWARD, q, k, v, is_causal=True, dropout_p=0.0)
    if not backward:
        return output, ()
    grads = ring._templated_ring_attention_backward(group, ROWS, BACKWARD, q, "grad_out", q, k, v, output, lse, True, dropout_p=0.0)
    return output, grads[:3]


def halves(whole, rank):
    chunks = whole.chunk(2 * RANKS, dim=ROWS)
    return torch.cat([chunks[rank], chunks[2 * RANKS - 1 - rank]], dim=ROWS)


def expect_right(group, rank):
    """That this is attention over the whole sequence, on a short one."""
    torch.manual_seed(1)
    whole = [torch.randn(1, 2, 256, 64, requires_grad=True) for _ in range(3)]
    expected = torch.nn.functional.scaled_dot_product_attention(*whole, is_causal=True)
    mine = [halves(x.detach(), rank) for x in whole]
    output, grads = call(group, *mine, True)
    expected_grads = torch.autograd.grad(expected, whole, torch.cat([whole[0].detach()], dim=0))
    for name, found, wanted in zip(("output", "dq", "dk", "dv"), (output, *grads), (expected.detach(), *expected_grads)):
        error = (found - halves(wanted, rank)).abs().max().item()
        if error > 1e-4 * wanted.abs().max().item():
            sys.exit(f"{name} of rank {rank}: off by {error}")


def run(rank, sizes, backward, calls, place):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{place}", rank=rank, world_size=RANKS)
    group = distributed.group.WORLD
    expect_right(group, rank)
    heads, tokens, width = sizes
    q, k, v = (torch.randn(1, heads, tokens // RANKS, width) for _ in range(3))
    for n in range(calls + 1):  # the first is not timed
        distributed.barrier()
        begin = time.monotonic()
        call(group, q, k, v, backward)
        distributed.barrier()
        if rank == 0 and n > 0:
            print(time.monotonic() - begin, flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        shape = [int(n) for n in sys.argv[1].split(",")]
        place = os.path.join(folder, "meeting")
        multiprocessing.spawn(run, (shape, sys.argv[2] == "backward", int(sys.argv[3]), place), nprocs=RANKS)
