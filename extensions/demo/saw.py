"""Compute the exponent of the size of a self-avoiding walk, as the example of the demo.

A self-avoiding walk of N steps on the simple cubic lattice is the textbook model of a polymer in a
good solvent. Its size grows as R ~ N^nu; the best known value is nu = 0.587597(7) (N. Clisby, Phys.
Rev. Lett. 104, 055702 (2010)).

The command ``sample`` draws walks with the pivot algorithm (N. Madras and A. D. Sokal, J. Stat.
Phys. 50, 109 (1988)). ``measure`` averages their squared sizes, and ``fit`` computes nu. ``check``
tests whether the file of one of these steps is valid for the next step. Lengths are in lattice
spacings. Only the standard library is used, because each stage runs this file as a program.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
from collections.abc import Iterator, Sequence
from itertools import accumulate, permutations, product
from pathlib import Path
from typing import Any, NamedTuple

#: Each step of a walk is a letter that names its axis: lower case for forwards, upper case for
#: backwards.
STEPS = b"xXyYzZ"
_VECTORS = ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1))
_COMPONENTS = tuple({s: v[a] for s, v in zip(STEPS, _VECTORS, strict=True)} for a in range(3))
#: Base for the encoding of a lattice site as one integer. The encoding is unique if walks are
#: shorter than half of this number.
_RADIX = 1 << 20
_DISPLACEMENTS = {
    s: x + _RADIX * (y + _RADIX * z) for s, (x, y, z) in zip(STEPS, _VECTORS, strict=True)
}
#: Sokal's automatic window: the sum over lags ends at this many autocorrelation times.
_WINDOW = 6.0
_REPORTS = 4


def symmetries() -> list[bytes]:
    """Return the 47 symmetries of the cubic lattice other than the identity.

    Each symmetry is a table for `bytes.translate`, which maps the letters of a walk to their
    images.
    """
    pairs = [STEPS[i : i + 2] for i in (0, 2, 4)]
    images = [
        b"".join(pair[::-1] if flip else pair for pair, flip in zip(order, flips, strict=True))
        for order in permutations(pairs)
        for flips in product((False, True), repeat=3)
    ]
    return [bytes.maketrans(STEPS, image) for image in images if image != STEPS]


def is_self_avoiding(walk: bytes) -> bool:
    """Return whether the walk visits no lattice site twice."""
    sites = accumulate(map(_DISPLACEMENTS.__getitem__, walk), initial=0)
    return len(set(sites)) == len(walk) + 1


def pivot(walk: bytes, site: int, symmetry: bytes) -> bytes:
    """Apply the symmetry to the part of a walk after ``site``.

    Return the walk unchanged if the result would cross itself.
    """
    candidate = walk[:site] + walk[site:].translate(symmetry)
    return candidate if is_self_avoiding(candidate) else walk


def chain(length: int, rng: random.Random) -> Iterator[bytes]:
    """Yield the endless Markov chain of the pivot algorithm, starting from a straight rod.

    Only ``rng.random`` is used, because its sequence is the same in every version of Python. A seed
    therefore gives the same walks everywhere.
    """
    moves = symmetries()
    walk = STEPS[:1] * length
    while True:
        site = int(rng.random() * length)
        walk = pivot(walk, site, moves[int(rng.random() * len(moves))])
        yield walk


def sample(length: int, *, samples: int, interval: int, discard: int, seed: int) -> Iterator[bytes]:
    """Yield ``samples`` walks, one after every ``interval`` pivots.

    The first ``discard`` pivots are not sampled.
    """
    walks = chain(length, random.Random(f"{seed}/{length}"))
    for _ in range(discard):
        next(walks)
    for _ in range(samples):
        for _ in range(interval - 1):
            next(walks)
        yield next(walks)


def squared_sizes(walk: bytes) -> tuple[float, float]:
    """Return the squared end-to-end distance and the squared radius of gyration of a walk."""
    end, spread = 0.0, 0.0
    for component in _COMPONENTS:
        places = list(accumulate(map(component.__getitem__, walk), initial=0))
        mean = sum(places) / len(places)
        end += places[-1] ** 2
        spread += sum(place * place for place in places) / len(places) - mean * mean
    return end, spread


class Estimate(NamedTuple):
    """A mean, its standard error, and the integrated autocorrelation time in samples."""

    mean: float
    error: float
    tau: float


def estimate(series: Sequence[float]) -> Estimate:
    """Return the mean of a correlated series with its standard error.

    The variance of the mean is 2 tau / n times that of a sample, where tau is 1/2 plus the sum
    of the autocorrelations up to Sokal's window. Raises `ValueError` below two samples.
    """
    count = len(series)
    if count < 2:
        raise ValueError(
            "the error of a mean can be estimated only from at least 2 samples, but the series "
            f"has {count}."
        )
    mean = math.fsum(series) / count
    deviations = [value - mean for value in series]
    variance = _covariance(deviations, 0)
    if variance == 0.0:
        return Estimate(mean, 0.0, 0.5)
    tau = _autocorrelation_time(deviations, variance)
    return Estimate(mean, math.sqrt(2.0 * tau * variance / count), tau)


def _autocorrelation_time(deviations: Sequence[float], variance: float) -> float:
    tau = 0.5
    for lag in range(1, len(deviations) // 2):
        tau += _covariance(deviations, lag) / variance
        if lag >= _WINDOW * tau:
            break
    return max(tau, 0.5)


def _covariance(deviations: Sequence[float], lag: int) -> float:
    pairs = zip(deviations, deviations[lag:], strict=False)
    return math.fsum(a * b for a, b in pairs) / len(deviations)


class FittedLine(NamedTuple):
    """A weighted straight line through points: its slope, errors and goodness."""

    slope: float
    intercept: float
    error: float
    r_squared: float
    chi_squared_per_freedom: float


def weighted_line(xs: Sequence[float], ys: Sequence[float], sigmas: Sequence[float]) -> FittedLine:
    """Return the least-squares line through points with weights 1/sigma^2.

    The standard error of the slope follows from the weights. If chi^2 per degree of freedom is
    above one, the error is multiplied by its square root, because the points scatter more than
    their errors allow. Raises `ValueError` for fewer than three points, or for an error that is not
    positive.
    """
    if len(xs) < 3 or not all(sigma > 0 for sigma in sigmas):
        raise ValueError(
            "a line can be fitted only to at least 3 points, each with a positive standard error."
        )
    weights = [sigma**-2 for sigma in sigmas]
    x_mean, y_mean = _weighted_mean(weights, xs), _weighted_mean(weights, ys)
    sxx = math.fsum(w * (x - x_mean) ** 2 for w, x in zip(weights, xs, strict=True))
    points = list(zip(weights, xs, ys, strict=True))
    slope = math.fsum(w * (x - x_mean) * (y - y_mean) for w, x, y in points) / sxx
    intercept = y_mean - slope * x_mean
    total = math.fsum(w * (y - y_mean) ** 2 for w, _, y in points)
    chi = math.fsum(w * (y - intercept - slope * x) ** 2 for w, x, y in points)
    freedom = chi / (len(xs) - 2)
    error = math.sqrt(max(1.0, freedom) / sxx)
    return FittedLine(slope, intercept, error, 1.0 - chi / total, freedom)


def _weighted_mean(weights: Sequence[float], values: Sequence[float]) -> float:
    return math.fsum(w * v for w, v in zip(weights, values, strict=True)) / math.fsum(weights)


def exponent(rows: Sequence[dict[str, Any]], size: str) -> FittedLine:
    """Return the line fitted through ln N and ln R, where R^2 is the mean of ``size``.

    Each row has the ``length`` N and, under the key ``size``, the ``mean`` and ``error`` of R^2.
    """
    xs = [math.log(row["length"]) for row in rows]
    ys = [0.5 * math.log(row[size]["mean"]) for row in rows]
    sigmas = [0.5 * row[size]["error"] / row[size]["mean"] for row in rows]
    return weighted_line(xs, ys, sigmas)


def run_sample(options: argparse.Namespace) -> None:
    """Write the walks of every length to a file, and print the progress."""
    series = []
    for length in options.lengths:
        walks: list[str] = []
        source = sample(
            length,
            samples=options.samples,
            interval=options.interval,
            discard=options.discard * length,
            seed=options.seed,
        )
        for walk in source:
            walks.append(walk.decode("ascii"))
            if len(walks) % max(1, options.samples // _REPORTS) == 0:
                print(f"N={length}: {len(walks)}/{options.samples} walks", flush=True)
        series.append({"length": length, "walks": walks})
    asked = {"lengths": options.lengths, "samples": options.samples, "seed": options.seed}
    facts = {"interval": options.interval, "discard_per_step": options.discard}
    _write_json(options.out, {"kind": "walks", **asked, **facts, "series": series})


def run_measure(options: argparse.Namespace) -> None:
    """Write the mean squared sizes for every length, with their standard errors."""
    rows = []
    for series in _read_json(options.walks)["series"]:
        sizes = [squared_sizes(walk.encode("ascii")) for walk in series["walks"]]
        end, gyration = (estimate(values) for values in zip(*sizes, strict=True))
        print(
            f"N={series['length']}: <R_e^2> = {end.mean:.3f} +- {end.error:.3f}, "
            f"<R_g^2> = {gyration.mean:.4f} +- {gyration.error:.4f}",
            flush=True,
        )
        found = {"end_to_end": end._asdict(), "gyration": gyration._asdict()}
        rows.append({"length": series["length"], "samples": len(sizes), **found})
    _write_json(options.out, {"kind": "sizes", "rows": rows})


def run_fit(options: argparse.Namespace) -> None:
    """Write the exponents from the end-to-end distance and from the gyration radius."""
    rows = _read_json(options.sizes)["rows"]
    end, gyration = exponent(rows, "end_to_end"), exponent(rows, "gyration")
    fit = {"kind": "fit", "nu": end.slope, "nu_error": end.error, "r_squared": end.r_squared}
    lines = {"end_to_end": end._asdict(), "gyration": gyration._asdict()}
    _write_json(options.out, {**fit, "literature_nu": 0.587597, "lines": lines})
    head = f"{'N':>5} {'<R_e^2>':>10} {'+-':>8} {'<R_g^2>':>10} {'+-':>8}"
    body = [
        f"{row['length']:>5} "
        f"{row['end_to_end']['mean']:>10.3f} {row['end_to_end']['error']:>8.3f} "
        f"{row['gyration']['mean']:>10.4f} {row['gyration']['error']:>8.4f}"
        for row in rows
    ]
    fits = [
        f"nu ({name}) = {line.slope:.4f} +- {line.error:.4f}, R^2 = {line.r_squared:.6f}, "
        f"chi^2/dof = {line.chi_squared_per_freedom:.2f}"
        for name, line in (("end to end", end), ("gyration", gyration))
    ]
    text = "\n".join([head, *body, *fits]) + "\n"
    _write(options.table, text)
    print(text, end="", flush=True)


def run_check(options: argparse.Namespace) -> None:
    """Print the reasons and exit with code 1 if the file is invalid for the next step."""
    content = _read_json(options.file)
    problems, summary = _CHECKS[content["kind"]](content, options)
    if problems:
        sys.exit("\n".join(problems))
    print(summary)


def _check_walks(content: dict[str, Any], _: argparse.Namespace) -> tuple[list[str], str]:
    """Return the problems with a file of walks, and a summary.

    Problems are wrong lengths or numbers of walks, and walks that cross themselves.
    """
    problems = []
    lengths, samples = content["lengths"], content["samples"]
    found = [series["length"] for series in content["series"]]
    if found != lengths:
        problems.append(f"expected walks of lengths {lengths}, found {found}")
    for series in content["series"]:
        length, walks = series["length"], [walk.encode("ascii") for walk in series["walks"]]
        if len(walks) != samples:
            problems.append(f"N={length}: expected {samples} walks, found {len(walks)}")
        bad = sum(len(walk) != length or not is_self_avoiding(walk) for walk in walks)
        if bad:
            problems.append(f"N={length}: {bad} walks are of another length or cross themselves")
    return problems, f"{samples} walks of each of {len(lengths)} lengths, none crosses itself"


def _check_sizes(content: dict[str, Any], options: argparse.Namespace) -> tuple[list[str], str]:
    """Return a problem for each size whose relative error is too large, and a summary."""
    problems, worst = [], 0.0
    for row in content["rows"]:
        for size in ("end_to_end", "gyration"):
            mean, error = row[size]["mean"], row[size]["error"]
            if 0 < error <= options.error * mean:
                worst = max(worst, error / mean)
            else:
                place = f"N={row['length']}: {size} {mean} +- {error}"
                problems.append(f"{place}: above {options.error:.0%}")
    return problems, f"{len(content['rows'])} lengths, largest relative error {worst:.1%}"


def _check_fit(content: dict[str, Any], options: argparse.Namespace) -> tuple[list[str], str]:
    """Return the reasons why the exponent disagrees with the literature, and a summary."""
    (low, high), nu, r_squared = options.nu, content["nu"], content["r_squared"]
    problems = [] if low <= nu <= high else [f"expected nu in [{low}, {high}], found {nu}"]
    if not r_squared > options.r_squared:
        problems.append(f"expected R^2 above {options.r_squared}, found {r_squared}")
    return problems, f"nu = {nu:.4f}, R^2 = {r_squared:.6f}"


_CHECKS = {"walks": _check_walks, "sizes": _check_sizes, "fit": _check_fit}


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _write_json(path: Path, content: dict[str, Any]) -> None:
    _write(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


def _write(path: Path, text: str) -> None:
    """Write the complete file or nothing, because the job may be killed at any moment."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    top = argparse.ArgumentParser(prog="saw.py", description="The size of a self-avoiding walk.")
    commands = top.add_subparsers(required=True, metavar="COMMAND")
    draw = commands.add_parser("sample", help="draw walks with the pivot algorithm")
    draw.add_argument("--lengths", type=_parse_lengths, required=True, metavar="N,N,…")
    draw.add_argument("--samples", type=_parse_positive, required=True, help="walks of each length")
    draw.add_argument("--interval", type=_parse_positive, required=True, help="pivots between them")
    draw.add_argument("--discard", type=_parse_positive, default=20, help="first pivots, per step")
    draw.add_argument("--seed", type=int, required=True)
    draw.add_argument("--out", type=Path, default=Path("walks.json"))
    draw.set_defaults(run=run_sample)
    measure = commands.add_parser("measure", help="mean squared sizes with standard errors")
    measure.add_argument("walks", type=Path)
    measure.add_argument("--out", type=Path, default=Path("sizes.json"))
    measure.set_defaults(run=run_measure)
    fit = commands.add_parser("fit", help="the exponent nu of R ~ N^nu")
    fit.add_argument("sizes", type=Path)
    fit.add_argument("--out", type=Path, default=Path("fit.json"))
    fit.add_argument("--table", type=Path, default=Path("fit.txt"))
    fit.set_defaults(run=run_fit)
    check = commands.add_parser("check", help="whether a file is fit to go on with")
    check.add_argument("file", type=Path)
    check.add_argument("--error", type=float, default=0.05, help="largest relative error")
    check.add_argument("--nu", type=float, nargs=2, default=(0.55, 0.62), metavar=("LOW", "HIGH"))
    check.add_argument("--r-squared", type=float, default=0.99)
    check.set_defaults(run=run_check)
    return top


def _parse_positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, found {value}")
    return value


def _parse_lengths(text: str) -> list[int]:
    return [_parse_positive(part) for part in text.split(",")]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one subcommand. Print one line and exit with code 1 if a file cannot be used."""
    options = parser().parse_args(arguments)
    try:
        options.run(options)
    except (OSError, ValueError) as error:
        sys.exit(f"saw.py: {error}")


if __name__ == "__main__":
    main()
