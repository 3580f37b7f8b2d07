"""Many series at once, for the bound of time and memory: 40,000 series of 60 days, hourly, in one Parquet file.

    python make_many.py OUT.parquet [--limits LIMITS.csv] [--series 40000] [--days 60] [--step 3600]

The series are those of synthetic.py, of all kinds in turn. Columns as `plimsoll record import` reads them: name, labels (JSON), at (microseconds),
value. What is missing has no row. Every other pair of series has a limit in LIMITS.csv: twice its highest value, or 1.05 times.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from synthetic import KINDS, MONDAY_HOURLY, Grid, holes

SCHEMA = pa.schema([("name", pa.string()), ("labels", pa.string()), ("at", pa.int64()), ("value", pa.float64())])
# Series in a row group: 64 of 1,440 points are 92,160 rows.
GROUP = 64


def values_of(kind, number, grid):
    """History of one series."""
    index = list(KINDS).index(kind)
    rng = np.random.default_rng([8, 3, index, number])
    process = KINDS[kind][0](rng, grid)
    t = np.arange(grid.history)
    values = process.observe(t, process.noise.draw(rng, len(t))[0])
    return holes(rng, grid, values) if process.gaps else values


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--limits", type=Path)
    parser.add_argument("--series", type=int, default=40000)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--step", type=int, default=3600, help="seconds")
    options = parser.parse_args()
    day = 86400 // options.step
    grid = Grid(day, options.days * day, 0)
    at = (MONDAY_HOURLY + np.arange(grid.history, dtype=np.int64) * options.step) * 1_000_000
    kinds, rows = list(KINDS), 0
    limits = open(options.limits, "w", encoding="utf-8") if options.limits else None
    if limits:
        limits.write("series,limit\n")
    with pq.ParquetWriter(options.out, SCHEMA, compression="zstd", use_dictionary=["name", "labels"]) as writer:
        for begin in range(0, options.series, GROUP):
            parts = []
            for number in range(begin, min(begin + GROUP, options.series)):
                kind = kinds[number % len(kinds)]
                values = values_of(kind, number, grid)
                known = np.isfinite(values)
                name = kind.replace("-", "_")
                namespace = f"team-{number:05}"
                labels = json.dumps({"namespace": namespace}, separators=(",", ":"))
                count = int(known.sum())
                parts.append(
                    pa.table(
                        [
                            pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [name]).cast(pa.string()),
                            pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [labels]).cast(pa.string()),
                            pa.array(at[known]),
                            pa.array(values[known]),
                        ],
                        schema=SCHEMA,
                    )
                )
                rows += count
                if limits and number % 4 < 2:
                    bound = max(float(np.nanmax(values)), 1.0) * (1.05 if number % 4 else 2)
                    # Quotes within a field of CSV are doubled.
                    limits.write(f'"{name}{{namespace=""{namespace}""}}",{bound!r}\n')
            writer.write_table(pa.concat_tables(parts), row_group_size=GROUP * grid.history)
    if limits:
        limits.close()
    print(f"{options.out}: {options.series} series, {rows} points, {options.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
