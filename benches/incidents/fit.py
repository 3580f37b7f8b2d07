#!/usr/bin/env python3
"""Fits the weights of the judge's features: src/analysis/judge/weights.rs.

    cargo bench --bench incidents -- features --half fitted > composed.csv
    benches/incidents/captured/score.py --features --forms bundle,loose,audit,metrics,writes benches/incidents/captured/*.tar.zst > captured.csv
    benches/incidents/fit.py composed.csv --captured captured.csv            # rewrites the table of weights
    benches/incidents/fit.py composed.csv --captured captured.csv --dry      # leaves it
    benches/incidents/fit.py composed.csv --captured captured.csv --leave-one-out
    benches/incidents/fit.py composed.csv --captured captured.csv --only-blind   # the weights of no_reads alone

For each kind of cause a logistic regression over all candidates of that kind in all episodes that were found: is it
the cause, or not? The weights in prior.csv are what we would have chosen by reason. A Gaussian prior around them keeps
weights where the cases say nothing, and no weight changes its sign: what speaks for a cause never comes to speak against it.
The weight of no_reads is fitted to the others, on logs without reads: less than nothing, but where what would speak for a
cause can't be in such a log (HIDDEN). What people read is the confidence of the first cause, and that is what has to be
right: a candidate that is not the first of its episode counts as REST, and who is the first is found by fitting ROUNDS
times.
A candidate of a capture counts as much as CAPTURED of the composed cases, which are many and of one kind of mind.
--leave-one-out fits once for each capture without it, and says which cause is then the first in it. Needs numpy and scipy. The result depends on the features alone.
"""
import argparse
import collections
import csv
import pathlib
import re
import sys

import numpy
from scipy.optimize import minimize

HERE = pathlib.Path(__file__).parent
TABLE = HERE.parent.parent / "src/analysis/judge/weights.rs"
# How far weights go from what reason says, as a standard deviation.
SPREAD = 3.0
# A bias is nothing that reason knows, but that a cause for which nothing speaks is not likely: up to here.
BIAS_SPREAD = 4.0
HIGHEST_BIAS = -2.0
# What the composed cases never show stays as reason says: a restart in the course of an overload; a controller that asks
# for more, which others make it do; a client of which nothing is known but that it sent many times what it did.
FIXED = {
    ("relist-storm", "began_late"),
    ("client-surge", "control_plane"),
    ("write-burst", "control_plane"),
    ("client-surge", "times"),
}
# Fewer causes of a kind, or fewer candidates that are none, fit nothing.
MIN_EXAMPLES = 10
# So many composed candidates weigh as much as one of a capture.
CAPTURED = 4.0
# A window in which nothing happened, and nobody asks for more, has no cause: of each kind so many examples of that.
NOTHING = {"flat": 1.0}
NOTHING_WEIGHT = 10.0
# And no cause is likelier than 22 % of it, however rarely the cases show that.
HIGHEST_OF_NOTHING = -1.3
TOO_HIGH = 500.0
# The feature of audit logs whose policy leaves out reads, and the form of input that has it.
BLIND, BLIND_FORM = "no_reads", "writes"
# What a policy that leaves out reads hides of a cause says nothing against it: who starts its watches again.
HIDDEN = {"relist-storm": "watches"}
BINS = 10
REST = 0.2
ROUNDS = 5


def read(path, weight, candidates):
    """Candidates: kind, whether it is the cause, features, weight, and the episode they belong to."""
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            key = row["case"], row["form"], row["episode"], row["candidate"]
            new = {
                "kind": row["kind"], "is_right": int(row["is_right"]), "features": {}, "weight": weight,
                "case": row["case"], "form": row["form"], "of": (row["case"], row["form"], row["episode"]),
                "caller": row["caller"], "key": key,
            }
            own = candidates.setdefault(key, new)
            if row["feature"]:
                own["features"][row["feature"]] = float(row["value"])


def matrix(rows, names):
    """Features by row; a bias is 1."""
    return numpy.array([[1.0 if name == "bias" else own["features"].get(name, 0.0) for name in names] for own in rows])


def fit(prior, candidates):
    """Weights by kind: those of logs without reads last, since who asks for much is not seen in these."""
    whole = [own for own in candidates if own["form"] != BLIND_FORM]
    weights = fit_rounds({kind: {k: v for k, v in own.items() if k != BLIND} for kind, own in prior.items()}, whole)
    return fit_blind(prior, weights, candidates)


def fit_blind(prior, weights, candidates):
    """The weights with what logs without reads add to the odds of all candidates of a kind; who is first follows from those
    of the round before."""
    blind = [own for own in candidates if own["form"] == BLIND_FORM]
    for kind, own in prior.items():
        if BLIND in own:
            # Where the cases hold too few examples, reason is all there is.
            weights[kind][BLIND] = own[BLIND]
    for _ in range(ROUNDS):
        best = {own["key"] for _, own in firsts(weights, blind).values()}
        new = {}
        for kind, own in prior.items():
            rows = [row for row in blind if row["kind"] == kind]
            causes = sum(row["is_right"] for row in rows)
            if BLIND in own and min(causes, len(rows) - causes) >= MIN_EXAMPLES:
                highest = weights[kind][HIDDEN[kind]] if kind in HIDDEN else 0.0
                new[kind] = fit_shift(own[BLIND], highest, weights[kind], rows, best)
        for kind, shift in new.items():
            weights[kind][BLIND] = shift
    return weights


def fit_shift(start, highest, weights, rows, best):
    """What is to be added to the odds of candidates."""
    names = [name for name in weights if name != BLIND]
    odds = matrix(rows, names) @ numpy.array([weights[name] for name in names])
    y = numpy.array([own["is_right"] for own in rows])
    weight = numpy.array([own["weight"] * (1.0 if own["key"] in best else REST) for own in rows])

    def loss(w):
        value, slope = misfit(odds + w[0], y, weight)
        return value + 0.5 * ((w[0] - start) / SPREAD) ** 2, numpy.array([slope.sum() + (w[0] - start) / SPREAD**2])

    return minimize(loss, [start], jac=True, bounds=[(None, highest)], method="L-BFGS-B").x[0]


def misfit(odds, y, weight):
    """How badly log-odds say what is right, and how that changes with each of them."""
    return (weight * (numpy.logaddexp(0, odds) - y * odds)).sum(), weight * (1 / (1 + numpy.exp(-odds)) - y)


def fit_rounds(prior, candidates):
    """Weights by kind; which candidate is the first of its episode follows from those of the round before."""
    weights = fit_once(prior, candidates, {own["key"]: own["weight"] for own in candidates})
    for _ in range(1, ROUNDS):
        first = {own["key"] for _, own in firsts(weights, candidates).values()}
        rows = {own["key"]: own["weight"] * (1.0 if own["key"] in first else REST) for own in candidates}
        weights = fit_once(prior, candidates, rows)
    return weights


def fit_once(prior, candidates, weight_of):
    """Weights by kind, where each candidate counts so much."""
    fitted = collections.OrderedDict()
    for kind, weights in prior.items():
        names = list(weights)
        rows = [own for own in candidates if own["kind"] == kind]
        start = numpy.array([weights[name] for name in names])
        fitted[kind] = dict(zip(names, start))
        causes = sum(own["is_right"] for own in rows)
        # Where the cases hold no example, or no counterexample, reason is all there is.
        if min(causes, len(rows) - causes) < MIN_EXAMPLES:
            continue
        width = lambda name: 1e-3 if (kind, name) in FIXED else BIAS_SPREAD if name == "bias" else SPREAD
        spread = numpy.array([width(name) for name in names])
        x = matrix([*rows, {"features": NOTHING}], names)
        y = numpy.array([*(own["is_right"] for own in rows), 0.0])
        weight = numpy.array([*(weight_of[own["key"]] for own in rows), NOTHING_WEIGHT])

        def loss(w):
            odds = x @ w
            value, by_odds = misfit(odds, y, weight)
            above = max(odds[-1] - HIGHEST_OF_NOTHING, 0.0)
            value += 0.5 * (((w - start) / spread) ** 2).sum() + TOO_HIGH * above**2
            return value, x.T @ by_odds + (w - start) / spread**2 + 2 * TOO_HIGH * above * x[-1]

        bounds = [(None, HIGHEST_BIAS) if name == "bias" else (0, None) if w > 0 else (None, 0) for name, w in zip(names, start)]
        fitted[kind] = dict(zip(names, minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x))
    return fitted


def firsts(weights, candidates):
    """Of each episode the likeliest candidate, and its confidence."""
    best = {}
    for own in candidates:
        table = weights.get(own["kind"], {"bias": -9.0})
        odds = table["bias"] + sum(table.get(name, 0.0) * value for name, value in own["features"].items())
        confidence = 1 / (1 + numpy.exp(-odds))
        if own["of"] not in best or confidence > best[own["of"]][0]:
            best[own["of"]] = confidence, own
    return best


def report(name, best):
    """Right first causes, and the expected calibration error in bins of equal size, by form."""
    for form in sorted({key[1] for key in best}):
        of = sorted((confidence, own["is_right"]) for key, (confidence, own) in best.items() if key[1] == form)
        error, bins = 0.0, []
        for part in numpy.array_split(numpy.array(of), BINS):
            if len(part):
                error += abs(part[:, 0].mean() - part[:, 1].mean()) * len(part) / len(of)
                bins.append(f"{part[:, 0].mean():.2f}:{part[:, 1].mean():.2f}")
        right = sum(own[1] for own in of)
        print(f"{name} {form}: {right} of {len(of)} right, calibration error {error:.3f}  {' '.join(bins)}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("composed", nargs="+")
    parser.add_argument("--captured", action="append", default=[])
    parser.add_argument("--leave-one-out", action="store_true")
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--only-blind", action="store_true")
    args = parser.parse_args()
    prior = collections.OrderedDict()
    with open(HERE / "prior.csv", newline="") as file:
        for row in csv.DictReader(file):
            prior.setdefault(row["kind"], collections.OrderedDict())[row["feature"]] = float(row["weight"])
    composed, captured = collections.OrderedDict(), collections.OrderedDict()
    for path in args.composed:
        read(path, 1.0, composed)
    for path in args.captured:
        read(path, CAPTURED, captured)
    composed, captured = list(composed.values()), list(captured.values())
    if args.leave_one_out:
        for name in sorted({own["case"] for own in captured}):
            rest = [own for own in captured if own["case"] != name]
            best = firsts(fit(prior, composed + rest), [own for own in captured if own["case"] == name])
            for (case, form, episode), (confidence, own) in best.items():
                mark = "right" if own["is_right"] else "WRONG"
                print(f"{case} {form} {episode}: {mark} {own['kind']} {own['caller']} {confidence:.2f}")
        return
    text = TABLE.read_text()
    if args.only_blind:
        weights = collections.OrderedDict((kind, collections.OrderedDict()) for kind in prior)
        for kind, name, weight in re.findall(r'\("([a-z-]+)", "([a-z_]+)", (-?[0-9.]+)\)', text):
            weights[kind][name] = float(weight)
        weights = fit_blind(prior, weights, composed + captured)
    else:
        weights = fit(prior, composed + captured)
    report("composed", firsts(weights, composed))
    if captured:
        report("captured", firsts(weights, captured))
    if args.dry:
        return
    lines = [f'    ("{kind}", "{name}", {weight:.3f}),' for kind, own in weights.items() for name, weight in own.items()]
    head, rest = text.split("pub const WEIGHTS: &[(&str, &str, f64)] = &[\n")
    rest = rest[rest.index("];"):]
    TABLE.write_text(head + "pub const WEIGHTS: &[(&str, &str, f64)] = &[\n" + "\n".join(lines) + "\n" + rest)


if __name__ == "__main__":
    main()
