#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Generate zipc_tables.h: the code tables of the entropy codec (doc/format.md, section 6).

Usage: python3 gen_tables.py > zipc_tables.h

The tables are part of the frame format: once a release has used them, they are never changed, only added to.
Every table is made from a model of how the exponents of a tensor are spread. The symbol ANCHOR stands for the binade
that holds the scale 2**phase (0 <= phase < 1) of the model.
"""
import math

SYMBOLS = 15          # symbols 0..14; 15 is no symbol, a pair with an escape is index 255
ESCAPE = 255
MAX_LENGTH = 12
ANCHOR = 11
SCALE = 1 << 40       # probabilities become integers before any comparison, so that rounding cannot reorder them
SMOOTH = 2e-5         # probability given to every symbol, so that data a little off the model stay cheap
ESCAPE_MIN = 2.0 ** -10
ESCAPE_BITS = 16      # both exponents follow the escape code


def gauss_below(x):
    return math.erf(x / math.sqrt(2))


def laplace_below(x):
    return 1 - math.exp(-x * math.sqrt(2))


def mixture_below(tau):
    """Gaussian whose log-scale is itself Gaussian with deviation tau: the look of rows of different norms."""
    points = [(i / 4, math.exp(-(i / 4) ** 2 / 2)) for i in range(-14, 15)]
    total = sum(w for _, w in points)
    return lambda x: sum(w * gauss_below(x / math.exp(tau * z)) for z, w in points) / total


def binades(below, phase, anchor=ANCHOR):
    """Probability of each symbol when the binade of symbol `anchor` starts at 1 and the scale is 2**phase."""
    edges = [below(2.0 ** (s - anchor - phase)) for s in range(SYMBOLS + 1)]
    return [hi - lo for lo, hi in zip(edges, edges[1:])]


def average(lists):
    return [sum(column) / len(lists) for column in zip(*lists)]


def gauss_any_phase():
    return average([binades(gauss_below, i / 8) for i in range(8)])


def with_zero(zero, rest):
    """Zero mode: symbol 0 is the exponent zero with probability `zero`, the rest share what is left."""
    return [zero] + [(1 - zero) * p for p in rest[1:]]


def floor_gauss(octaves):
    """Zero mode near the smallest normal number: everything below it is symbol 0, the scale is `octaves` above it."""
    probs = binades(gauss_below, octaves, anchor=1)
    probs[0] = gauss_below(2.0 ** -octaves)
    return probs


def uniform():
    """Uniform in [-1, 1]: dyadic below symbol 13; what rounds up to 1 itself is symbol 14."""
    return [2.0 ** (s - 14) for s in range(14)] + [2.0 ** -10]


def models():
    """(name, zero mode, probabilities) of every table, in the order of their numbers."""
    phases = 6
    for i in range(phases):
        yield "gauss phase %d/%d" % (i, phases), 0, binades(gauss_below, i / phases)
    for i in range(3):
        yield "mixture tau 0.5 phase %d/3" % i, 0, binades(mixture_below(0.5), i / 3)
    for i in range(2):
        yield "laplace phase %d/2" % i, 0, binades(laplace_below, i / 2)
    yield "mixture tau 1.2", 0, average([binades(mixture_below(1.2), i / 4, ANCHOR - 2) for i in range(4)])
    yield "uniform", 0, uniform()
    yield "flat", 0, [1 / SYMBOLS] * SYMBOLS
    for zero in (0.03, 0.1, 0.3, 0.5, 0.75, 0.93):
        yield "zero %.2f" % zero, 1, with_zero(zero, gauss_any_phase())
    for octaves in (-1.0, -0.5, 0.0, 0.4, 0.8, 1.2, 1.6, 2.0, 2.5, 3.0, 3.5, 4.0):
        yield "floor %+.1f" % octaves, 1, floor_gauss(octaves)


def package_merge(weights, limit):
    """Lengths of the best prefix code no longer than `limit` for the weights, a list of (weight, index)."""
    leaves = [(w, i, (i,)) for w, i in sorted(weights)]
    packages = []
    for _ in range(limit):
        merged = sorted(packages + leaves, key=lambda p: (p[0], p[1]))
        packages = [(a[0] + b[0], a[1], a[2] + b[2]) for a, b in zip(merged[::2], merged[1::2])]
    lengths = [0] * 256
    for package in packages[:len(leaves) - 1]:
        for index in package[2]:
            lengths[index] += 1
    return lengths


def code_lengths(probs):
    """
    Code lengths of a model, and its smoothed probabilities.

    Giving every rare pair a code of 12 bits would use up a few percent of the code space. Pairs below a threshold get no
    code and are written as escapes; the threshold is the one that makes the model cheapest.
    """
    smooth = [(p + SMOOTH) / (1 + SYMBOLS * SMOOTH) for p in probs]
    pairs = [(smooth[a] * smooth[b], a | b << 4) for a in range(SYMBOLS) for b in range(SYMBOLS)]
    best = None
    for threshold in [2.0 ** -(n / 2) for n in range(20, 37)]:
        kept = [(p, index) for p, index in pairs if p >= threshold]
        escape = max(1 - sum(p for p, _ in kept), ESCAPE_MIN)
        weights = [(round(p * SCALE), index) for p, index in kept] + [(round(escape * SCALE), ESCAPE)]
        lengths = package_merge(weights, MAX_LENGTH)
        cost = sum(w * lengths[index] for w, index in weights) + weights[-1][0] * ESCAPE_BITS
        if best is None or cost < best[0]:
            best = cost, lengths
    lengths = best[1]
    assert max(lengths) <= MAX_LENGTH and sum(1 << (MAX_LENGTH - n) for n in lengths if n) == 1 << MAX_LENGTH
    return lengths, smooth


def marginal_costs(lengths, probs):
    """Bits * 16 that one symbol adds to a pair, its partner being drawn from the table's own model."""
    escape = lengths[ESCAPE] + ESCAPE_BITS
    pair = [[lengths[s | t << 4] or escape for t in range(SYMBOLS)] for s in range(SYMBOLS)]
    mean = [sum(p * (pair[s][t] + pair[t][s]) / 2 for t, p in enumerate(probs)) for s in range(SYMBOLS)]
    half = sum(p * m for p, m in zip(probs, mean)) / 2
    return [max(0, round(16 * (m - half))) for m in mean + [escape]]


def rows(values, per_line):
    for i in range(0, len(values), per_line):
        yield "\t\t" + ", ".join("%d" % v for v in values[i:i + per_line]) + ","


def main():
    tables = []
    for name, zero, probs in models():
        lengths, smooth = code_lengths(probs)
        used = [(s, p) for s, p in enumerate(smooth) if not zero or s]
        mean = round(16 * sum(s * p for s, p in used) / sum(p for _, p in used))
        tables.append((name, zero, lengths, marginal_costs(lengths, smooth), mean))
    assert len(tables) <= 32
    print("/* SPDX-License-Identifier: BSD-3-Clause */")
    print("/* Written by gen_tables.py, do not edit. The code tables of the entropy codec: doc/format.md, section 6. */")
    print("#ifndef ZIPC_TABLES_H\n#define ZIPC_TABLES_H\n\n#include <stdint.h>\n")
    print("#define ZIPC_TABLES %d       /* tables in use; a block that names another one is an error */" % len(tables))
    print("#define ZIPC_TABLE_BITS %d   /* longest code */" % MAX_LENGTH)
    print("#define ZIPC_TABLE_SYMBOLS %d" % SYMBOLS)
    print("#define ZIPC_TABLE_ESCAPE %d /* index of the escape code */\n" % ESCAPE)
    print("/* Code length of index s0 | s1 << 4; 0 is no code: such a pair is written as an escape. */")
    print("static const uint8_t zipc_table_lengths[ZIPC_TABLES][256] = {")
    for number, (name, _, lengths, _, _) in enumerate(tables):
        print("\t{ /* %d: %s */" % (number, name))
        print("\n".join(rows(lengths, 16)))
        print("\t},")
    print("};\n")
    print("/*\n * For encoders that choose: bits * 16 that a symbol costs in a table, index 15 being an element that escapes.\n */")
    print("static const uint16_t zipc_table_costs[ZIPC_TABLES][16] = {")
    for number, (_, _, _, costs, _) in enumerate(tables):
        print("\t{ %s }, /* %d */" % (", ".join("%d" % c for c in costs), number))
    print("};\n")
    print("/* 1: made for zero mode, 0: for normal mode. A frame may use any table in any mode. */")
    print("static const uint8_t zipc_table_zero[ZIPC_TABLES] = {\n%s\n};\n" % "\n".join(rows([t[1] for t in tables], 16)))
    print("/* Mean symbol * 16 of the model, symbol 0 left out in zero mode: mean exponent - mean symbol is a good base. */")
    print("static const uint8_t zipc_table_means[ZIPC_TABLES] = {\n%s\n};\n" % "\n".join(rows([t[4] for t in tables], 16)))
    print("#endif")


if __name__ == "__main__":
    main()
