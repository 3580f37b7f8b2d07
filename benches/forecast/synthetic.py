"""Series as control planes have them, with known truth.

A series is `observe(mean(t) + noise(t))`. `mean` is a function of time that is known exactly; the noise is white, autocorrelated, or comes in bursts.
So the truth is known twice: the future that came (`future`, `crossing`), and what anyone could have known of it at best (`oracle`: 200 futures
drawn from the same process, from where its noise stood at the end of the history).

Limits. A stationary series gets a limit of 1.1 to 2 times the 99.9 % quantile of its process, and never reaches it. Of the growing ones about half get
what another future of the process reaches in the first nine tenths of the horizon, at a random place; the others what that future stays below by 0.15 to
1 times its growth. Whether and when the future that came reaches the limit is then looked up in it.
"""

from dataclasses import dataclass
from typing import Callable

import numpy as np
from scipy.signal import lfilter

from windows import DAY, HOUR, line

DRAWS = 200
# 2026-06-01 and 2026-01-05, both Mondays, so that weekends are weekends.
MONDAY_HOURLY = 1780272000
MONDAY_DAILY = 1767571200


@dataclass
class Grid:
    """The grid of time: steps in a day, steps of history and of future."""

    day: int
    history: int
    future: int


@dataclass
class Noise:
    """Noise of one process: AR(1) with standard deviation `sigma`, bursts that come with `rate` a step, last and are as high as drawn."""

    sigma: float
    phi: float = 0.0
    rate: float = 0.0
    height: tuple = (0.0, 0.0)
    lasts: tuple = (1, 2)

    def draw(self, rng, steps, last=None):
        """`steps` of noise; `last` is where the AR(1) part stood before. Returns the noise, and the AR(1) part alone."""
        shocks = rng.normal(0, self.sigma, steps)
        if self.phi:
            # Shocks are scaled so that sigma is the deviation of the noise itself.
            value = rng.normal(0, self.sigma) if last is None else last
            smooth, _ = lfilter([np.sqrt(1 - self.phi**2)], [1, -self.phi], shocks, zi=[self.phi * value])
        else:
            smooth = shocks
        noise = smooth.copy()
        if self.rate:
            for begin in np.flatnonzero(rng.random(steps) < self.rate):
                noise[begin : begin + rng.integers(*self.lasts)] += rng.uniform(*self.height)
        return noise, smooth


@dataclass
class Process:
    """A kind's process with its parameters drawn."""

    mean: Callable
    noise: Noise
    # Multiplies the noise, where it grows with the level.
    swell: Callable = None
    whole: bool = False
    stationary: bool = False
    # Neither growing nor stationary over the history, but flat from here on.
    flat: bool = False
    gaps: bool = False

    def observe(self, t, noise):
        """What is measured: not below zero, whole numbers for counts."""
        value = self.mean(t) + noise * (1.0 if self.swell is None else self.swell(t))
        value = np.maximum(value, 0.0)
        return np.round(value) if self.whole else value


def season(rng, grid, strength, weekend=True):
    """A course of the day and of the week around 0, between about -strength and +strength."""
    phase, second = rng.uniform(0, 2 * np.pi), rng.uniform(0.1, 0.5)
    low = rng.uniform(0.2, 0.8) if weekend else 0.0
    weekday = rng.uniform(0.0, 0.15, 7)

    def course(t):
        days = (t // grid.day) % 7
        of_week = -low * (days >= 5) + weekday[days.astype(int)]
        if grid.day == 1:
            return strength * of_week
        angle = 2 * np.pi * t / grid.day + phase
        of_day = np.sin(angle) + second * np.sin(2 * angle)
        return strength * (of_day * np.where(days >= 5, 1 - low, 1.0) + 0.5 * of_week)

    return course


def flat(t):
    return np.zeros(len(t))


def level(rng):
    """Where a series lies: from tens (seats, nodes) to tens of gigabytes."""
    return 10 ** rng.uniform(1.3, 10)


# Each kind: (rng, grid) -> Process. Sizes are relative to the level, so that the same holds for bytes and for seats.


def white(rng, grid):
    base = level(rng)
    return Process(lambda t: base + flat(t), Noise(base * rng.uniform(0.01, 0.15)), stationary=True)


def ar1(rng, grid):
    base = level(rng)
    return Process(lambda t: base + flat(t), Noise(base * rng.uniform(0.02, 0.12), phi=rng.uniform(0.5, 0.98)), stationary=True)


def bursts(rng, grid):
    base = level(rng)
    high = base * rng.uniform(0.3, 2)
    noise = Noise(base * rng.uniform(0.01, 0.05), rate=rng.uniform(0.5, 2) / 48, height=(0.5 * high, high), lasts=(1, 6))
    return Process(lambda t: base + flat(t), noise, stationary=True)


def seasonal(rng, grid):
    base = level(rng)
    course = season(rng, grid, base * rng.uniform(0.05, 0.4))
    return Process(lambda t: base + course(t), Noise(base * rng.uniform(0.01, 0.08), phi=rng.choice([0.0, 0.6])), stationary=True)


def mostly_zero(rng, grid):
    high = rng.uniform(3, 60)
    noise = Noise(0.0, rate=rng.uniform(0.3, 2) / 72 * (24 / grid.day) ** 0.5, height=(1, high), lasts=(1, 6))
    return Process(flat, noise, whole=True, stationary=True)


def sawtooth(rng, grid):
    base = level(rng)
    period = int(rng.integers(2 * grid.day, 12 * grid.day)) if grid.day > 1 else int(rng.integers(5, 22))
    high, start = base * rng.uniform(0.2, 0.8), rng.integers(0, period)
    return Process(lambda t: base + high * ((t + start) % period) / period, Noise(base * rng.uniform(0.003, 0.02)), stationary=True)


def with_gaps(rng, grid):
    process = seasonal(rng, grid) if rng.random() < 0.5 else ar1(rng, grid)
    process.gaps = True
    return process


def linear(rng, grid):
    base = level(rng)
    growth = base * rng.uniform(0.3, 1.5) / grid.history
    return Process(lambda t: base + growth * t, Noise(base * rng.uniform(0.01, 0.06), phi=rng.choice([0.0, 0.0, 0.8])))


def linear_season(rng, grid):
    base = level(rng)
    growth = base * rng.uniform(0.3, 1.5) / grid.history
    course = season(rng, grid, base * rng.uniform(0.05, 0.3))
    return Process(lambda t: base + growth * t + course(t), Noise(base * rng.uniform(0.01, 0.05)))


def multiplicative(rng, grid):
    base = level(rng)
    growth = rng.uniform(0.3, 1.5) / grid.history
    course = season(rng, grid, rng.uniform(0.05, 0.3))
    swell = lambda t: 1 + growth * t
    return Process(lambda t: base * swell(t) * (1 + course(t)), Noise(base * rng.uniform(0.01, 0.04)), swell=swell)


def saturating(rng, grid):
    base, rise = level(rng), rng.uniform(0.5, 2)
    middle, width = grid.history * rng.uniform(0.4, 0.95), grid.history * rng.uniform(0.08, 0.17)
    return Process(lambda t: base * (1 + rise / (1 + np.exp(-(t - middle) / width))), Noise(base * rng.uniform(0.01, 0.04)))


def step_flat(rng, grid):
    base, jump = level(rng), rng.uniform(0.2, 1.2)
    at = int(grid.history * rng.uniform(0.3, 0.85))
    course = season(rng, grid, base * rng.uniform(0.0, 0.15))
    return Process(lambda t: base * (1 + jump * (t >= at)) + course(t), Noise(base * rng.uniform(0.01, 0.05)), flat=True)


def step_growth(rng, grid):
    base, jump = level(rng), rng.uniform(0.2, 1)
    at = int(grid.history * rng.uniform(0.3, 0.7))
    growth = base * rng.uniform(0.4, 1.5) / grid.history
    return Process(lambda t: base * (1 + jump * (t >= at)) + growth * np.maximum(t - at, 0), Noise(base * rng.uniform(0.01, 0.05)))


def recent_growth(rng, grid):
    base = level(rng)
    since = grid.history - (int(rng.uniform(5, 20) * grid.day) if grid.day > 1 else int(rng.uniform(20, 60)))
    growth = base * rng.uniform(0.3, 1.0) / (grid.history - since)
    return Process(lambda t: base + growth * np.maximum(t - since, 0), Noise(base * rng.uniform(0.01, 0.04)))


def growing_sawtooth(rng, grid):
    teeth = sawtooth(rng, grid)
    base = float(teeth.mean(np.zeros(1))[0])
    growth = base * rng.uniform(0.4, 1.5) / grid.history
    return Process(lambda t: teeth.mean(t) + growth * t, teeth.noise)


def objects(rng, grid):
    base = 10 ** rng.uniform(2, 5)
    growth, weekend = rng.uniform(0.3, 1.2) / grid.history, rng.uniform(0.02, 0.3)

    def mean(t):
        return base * (1 + growth * t) * (1 - weekend * ((t // grid.day) % 7 >= 5))

    return Process(mean, Noise(np.sqrt(base) * rng.uniform(0.5, 3)), whole=True)


def growth_with_gaps(rng, grid):
    process = linear_season(rng, grid) if rng.random() < 0.5 else linear(rng, grid)
    process.gaps = True
    return process


# How many of each kind: hourly, daily.
KINDS = {
    "white": (white, 30, 15),
    "ar1": (ar1, 30, 15),
    "bursts": (bursts, 30, 15),
    "seasonal": (seasonal, 50, 25),
    "mostly-zero": (mostly_zero, 25, 10),
    "sawtooth": (sawtooth, 25, 10),
    "gaps": (with_gaps, 20, 10),
    "linear": (linear, 40, 20),
    "linear-season": (linear_season, 50, 25),
    "multiplicative": (multiplicative, 30, 15),
    "saturating": (saturating, 30, 15),
    "step-flat": (step_flat, 30, 15),
    "step-growth": (step_growth, 25, 10),
    "recent-growth": (recent_growth, 25, 15),
    "growing-sawtooth": (growing_sawtooth, 25, 10),
    "objects": (objects, 30, 15),
    "growth-gaps": (growth_with_gaps, 20, 10),
}


def holes(rng, grid, values):
    """Gaps of hours to days, single missing points, and short falls to zero, as when a process begins anew."""
    values = values.copy()
    longest = 3 * grid.day if grid.day > 1 else 7
    for _ in range(rng.integers(1, 5)):
        begin = rng.integers(0, len(values) - longest - grid.day)
        values[begin : begin + rng.integers(1, longest + 1)] = np.nan
    values[:-1][rng.random(len(values) - 1) < 0.01] = np.nan
    for _ in range(rng.integers(0, 3)):
        begin = rng.integers(0, len(values) - 10)
        values[begin : begin + rng.integers(1, 4)] = 0.0
    return values


def limit_above(rng, process, grid, past, future):
    """A limit that a process that does not grow never meets: 1.1 to 2 times its 99.9 % quantile, and above all that came."""
    t = np.arange(grid.history, grid.history + 20000)
    quantile = np.quantile(process.observe(t, process.noise.draw(rng, len(t))[0]), 0.999)
    highest = max(np.nanmax(past) if process.stationary else 0.0, future.max())
    for _ in range(50):
        limit = quantile * rng.uniform(1.1, 2)
        if limit > highest:
            return limit
    raise AssertionError("no limit up to twice the quantile lies above what came")


def limit_of_growth(rng, process, grid, past, last):
    """A limit that is reached at a random place, or, in the other half, stays out of reach.

    It is taken from another future of the same process, not from the one that came: else the noise of the one that came would be high just there.
    """
    before = np.nanmax(past)
    t = np.arange(grid.history, grid.history + grid.future)
    records = np.maximum.accumulate(process.observe(t, process.noise.draw(rng, grid.future, last)[0]))
    place = int(rng.uniform(0.03, 0.9) * grid.future)
    if rng.random() < 0.5 and records[place] > before * 1.001:
        return records[place]
    ends = process.mean(np.array([grid.history, grid.history + grid.future], float))
    grows = max(float(ends[1] - ends[0]), 0.1 * float(ends[1]))
    return max(records[-1], before) + rng.uniform(0.15, 1) * grows


def crossing_of(future, limit):
    """Index of the first step that reaches the limit, None if none does."""
    reached = np.flatnonzero(future >= limit)
    return int(reached[0]) if len(reached) else None


def oracle(rng, process, grid, last, limit):
    """What one would say who knew the process: probability of reaching the limit, and deciles of when."""
    t = np.arange(grid.history, grid.history + grid.future)
    when = []
    for _ in range(DRAWS):
        place = crossing_of(process.observe(t, process.noise.draw(rng, grid.future, last)[0]), limit)
        when.append(np.inf if place is None else place)
    when = np.sort(when)
    deciles = {f"p{p}": when[int(p / 100 * DRAWS)] for p in (10, 50, 90)}
    return {
        "probability": float(np.isfinite(when).mean()),
        **{name: int(v) if np.isfinite(v) else None for name, v in deciles.items()},
    }


def one(set_name, kind, number, grid, seed, with_oracle):
    """One series with its truth. Each has a seed of its own, so that adding a kind changes no other."""
    rng = np.random.default_rng(seed)
    process = KINDS[kind][0](rng, grid)
    t = np.arange(grid.history + grid.future)
    noise, smooth = process.noise.draw(rng, len(t))
    values = process.observe(t, noise)
    past, future = values[: grid.history], values[grid.history :]
    if process.gaps:
        past = holes(rng, grid, past)
    last = smooth[grid.history - 1]
    if process.stationary or process.flat:
        limit = limit_above(rng, process, grid, past, future)
    else:
        limit = limit_of_growth(rng, process, grid, past, last)
    limit = float(f"{limit:.9g}")
    written = np.array([float(f"{v:.9g}") for v in future])
    hourly = grid.day > 1
    return line(
        set_name,
        f"{kind}-{number}",
        HOUR if hourly else DAY,
        (24, 168) if hourly else (7,),
        MONDAY_HOURLY if hourly else MONDAY_DAILY,
        past,
        future,
        limit=limit,
        crossing=crossing_of(written, limit),
        kind=kind,
        stationary=process.stationary,
        oracle=oracle(rng, process, grid, last, limit) if with_oracle else None,
    )


def sets(with_oracle=True):
    """Both sets, checked: no series that does not grow reaches its limit. Without the oracle they are made in a quarter of the time, and are the same."""
    made = {}
    for which, name, grid in ((1, "synthetic-hourly", Grid(24, 1440, 720)), (2, "synthetic-daily", Grid(1, 200, 60))):
        lines = [
            one(name, kind, number, grid, [8, which, index, number], with_oracle)
            for index, (kind, counts) in enumerate(KINDS.items())
            for number in range(counts[which])
        ]
        for made_line in lines:
            still = made_line["stationary"] or made_line["kind"] == "step-flat"
            assert not (still and made_line["crossing"] is not None), made_line["name"]
        made[name] = lines
    return made
