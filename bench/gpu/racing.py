"""How the tables of bench/gpu/run.py are timed: calls take turns, ratios are taken round by round."""
import math
import statistics
import time


def seconds(call, wait, count):
    """Of one call, from `count` that are queued together."""
    call()
    wait()
    start = time.perf_counter()
    for _ in range(count):
        call()
    wait()
    return (time.perf_counter() - start) / count


def race(calls, flops, rounds):
    """{name: [seconds of every round]}, the order rotating; calls is {name: (call, wait)}."""
    count = max(3, int(0.008 / (flops / 500e12)))
    times = {name: [] for name in calls}
    names = list(calls)
    for turn in range(rounds + 1):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            taken = seconds(*calls[name], count)
            if turn:
                times[name].append(taken)
    return times


def paired(top, bottom):
    """Median of the ratios by round, and its lower 95 % bound (for 15 rounds the 4th smallest)."""
    ratios = sorted(a / b for a, b in zip(top, bottom))
    return statistics.median(ratios), ratios[max(0, round(len(ratios) / 2 - 0.98 * math.sqrt(len(ratios))) - 1)]


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def close_in_norm(found, wanted, most):
    off = ((found.float() - wanted.float()).norm() / wanted.float().norm()).item()
    if not off < most:
        raise RuntimeError(f"results differ by {off} of their norm")
