#!/usr/bin/env python3
"""Fits the weights of the judge's features: src/analysis/judge/weights.rs.

    cargo bench --bench incidents -- features --half fitted > features.csv
    benches/incidents/fit.py features.csv

For each kind of cause a logistic regression over all candidates of that kind in all episodes that were found: is it
the cause, or not? The weights in prior.csv are what we would have chosen by reason. A Gaussian prior around them keeps
weights where the cases say nothing, and no weight changes its sign: what speaks for a cause never comes to speak against it.
Needs numpy and scipy. The result depends on the features alone.
"""
import collections
import csv
import pathlib
import sys

import numpy
from scipy.optimize import minimize

HERE = pathlib.Path(__file__).parent
TABLE = HERE.parent.parent / "src/analysis/judge/weights.rs"
# How far weights go from what reason says, as a standard deviation.
SPREAD = 1.5
# A bias is nothing that reason knows: it may go anywhere.
BIAS_SPREAD = 4.0
# What the composed cases never show stays as reason says: a restart in the course of an overload; reads of single objects,
# which wait for a slow etcd as writes do and never for a webhook.
FIXED = {
    ("relist-storm", "began_late"),
    ("slow-etcd", "drag_writes"),
    ("slow-etcd", "drag_reads"),
    ("webhook-drag", "drag_reads"),
}
# Clients that rise together: a composed case has one culprit, which adds nearly all load, and fitted to that a client that adds
# two thirds of it would be none. The weights of these are reason's.
FIXED_KINDS = {"client-surge"}
# Fewer causes of a kind, or fewer candidates that are none, fit nothing.
MIN_EXAMPLES = 10


def read(paths):
    """By kind: rows of (features, is it the cause, weight of the row)."""
    candidates = collections.OrderedDict()
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                key = path, row["case"], row["form"], row["episode"], row["candidate"]
                own = candidates.setdefault(key, {"kind": row["kind"], "is_right": int(row["is_right"]), "features": {}})
                own["features"][row["feature"]] = float(row["value"])
    return candidates.values()


def main():
    prior = collections.OrderedDict()
    with open(HERE / "prior.csv", newline="") as file:
        for row in csv.DictReader(file):
            prior.setdefault(row["kind"], collections.OrderedDict())[row["feature"]] = float(row["weight"])
    candidates = list(read(sys.argv[1:]))
    lines = []
    for kind, weights in prior.items():
        names = list(weights)
        rows = [own for own in candidates if own["kind"] == kind]
        start = numpy.array([weights[name] for name in names])
        spread = numpy.array([BIAS_SPREAD if name == "bias" else 1e-3 if (kind, name) in FIXED else SPREAD for name in names])
        fitted = start
        causes = sum(own["is_right"] for own in rows)
        # Where the cases hold no example, or no counterexample, reason is all there is.
        if kind not in FIXED_KINDS and min(causes, len(rows) - causes) >= MIN_EXAMPLES:
            x = numpy.array([[1.0 if name == "bias" else own["features"].get(name, 0.0) for name in names] for own in rows])
            y = numpy.array([own["is_right"] for own in rows], dtype=float)

            def loss(w):
                odds = x @ w
                value = numpy.logaddexp(0, odds).sum() - (y * odds).sum() + 0.5 * (((w - start) / spread) ** 2).sum()
                p = 1 / (1 + numpy.exp(-odds))
                return value, x.T @ (p - y) + (w - start) / spread**2

            bounds = [(None, None) if name == "bias" else (0, None) if w > 0 else (None, 0) for name, w in zip(names, start)]
            fitted = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
            p = 1 / (1 + numpy.exp(-(x @ fitted)))
            print(f"{kind}: {len(rows)} candidates, {int(y.sum())} causes, mean confidence {p.mean():.3f}", file=sys.stderr)
        lines += [f'    ("{kind}", "{name}", {weight:.3f}),' for name, weight in zip(names, fitted)]
    text = TABLE.read_text()
    head, rest = text.split("pub const WEIGHTS: &[(&str, &str, f64)] = &[\n")
    rest = rest[rest.index("];"):]
    TABLE.write_text(head + "pub const WEIGHTS: &[(&str, &str, f64)] = &[\n" + "\n".join(lines) + "\n" + rest)


if __name__ == "__main__":
    main()
