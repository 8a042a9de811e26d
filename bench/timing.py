"""Times of calls."""
import time


def sample(call, calls):
    times = []
    for _ in range(calls):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return times
