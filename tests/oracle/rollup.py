#!/usr/bin/env python3
"""Runs docs/rollup.sql in DuckDB over audit logs and writes each table as CSV.

    rollup.py --out DIR CLUSTER:INSTANCE:STREAM=FILE...

FILE is a log of one JSON event a line, plain, .gz or .zst. Files of the same stream (rotated logs) are
read as one, in the order given; FILEs that follow without a CLUSTER:INSTANCE:STREAM= belong to the
stream before them. Rows are sorted by their key: text by bytes, numbers by value.

Needs the Python package duckdb (2.0), and zstandard for .zst.
"""

import argparse
import csv
import gzip
import io
import pathlib
import re
import sys

TABLES = [
    "traffic", "pulse", "sequences", "sources", "objects", "notable", "clients", "nodes", "deprecated", "load", "operations",
    "omitted", "cascades", "created", "leases", "refusals", "writes", "alternations", "failures",
    "coverage_events",
]
SQL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "rollup.sql"
BATCH = 10_000  # lines


class Failure(Exception):
    """What went wrong, in words for the user."""


def open_log(path):
    if path.endswith(".gz"):
        return gzip.open(path, "rb")
    if path.endswith(".zst"):
        try:
            import zstandard
        except ImportError:
            raise Failure(f"{path}: needs the Python package zstandard") from None
        return io.BytesIO(decompress_zst(path, zstandard))
    return open(path, "rb")


def decompress_zst(path, zstandard):
    """All frames of a file. Its stream_reader would take a file that is cut short for a whole one."""
    data, parts = pathlib.Path(path).read_bytes(), []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        parts.append(frame.decompress(data))
        if not frame.eof:
            raise Failure(f"{path}: cut short")
        data = frame.unused_data
    return b"".join(parts)


def read_lines(path):
    """The lines of a file, without their ends. Only LF ends a line, and a last one may lack it."""
    try:
        with open_log(path) as log:
            for line in log:
                yield line.rstrip(b"\r\n").decode("utf-8", "replace")
    except Failure:
        raise
    except Exception as error:  # zstandard and gzip have errors of their own
        raise Failure(f"{path}: {error}") from error


def batches(lines):
    batch = []
    for line in lines:
        batch.append(line)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def parse_inputs(arguments):
    """{(cluster, instance, stream): [file, ...]}, in the order given."""
    streams = {}
    stream = None
    for argument in arguments:
        match = re.fullmatch(r"([^:=/]*):([^:=/]*):([^=]*)=(.+)", argument, re.DOTALL)
        if match:
            stream, argument = match.groups()[:3], match.group(4)
        elif stream is None:
            raise Failure(f"{argument}: the first input must be CLUSTER:INSTANCE:STREAM=FILE")
        streams.setdefault(stream, []).append(argument)
    return streams


def load(db, streams):
    db.execute("CREATE TABLE lines(cluster VARCHAR, instance VARCHAR, stream VARCHAR, seq BIGINT, line VARCHAR)")
    for stream, files in streams.items():
        seq = 0
        for batch in batches(line for file in files for line in read_lines(file)):
            db.execute(
                "INSERT INTO lines SELECT ?, ?, ?, unnest(range(?::BIGINT, ?::BIGINT)), unnest(?::VARCHAR[])",
                [*stream, seq, seq + len(batch), batch],
            )
            seq += len(batch)


def text(value):
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else value


def write(db, table, directory):
    # The key columns stand first in every table, in the order of the key.
    cursor = db.execute(f"SELECT * FROM t_{table} ORDER BY ALL")
    with open(directory / f"{table}.csv", "w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(column[0] for column in cursor.description)
        while rows := cursor.fetchmany(BATCH):
            for row in rows:
                if None in row:
                    raise Failure(f"table {table}: NULL in {row}")
                out.writerow(map(text, row))


def main():
    parser = argparse.ArgumentParser(description="Run docs/rollup.sql over audit logs, write tables as CSV.")
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="DIR")
    parser.add_argument("inputs", nargs="+", metavar="CLUSTER:INSTANCE:STREAM=FILE")
    arguments = parser.parse_args()

    try:
        import duckdb
    except ImportError:
        raise Failure("needs the Python package duckdb") from None
    streams = parse_inputs(arguments.inputs)
    try:
        sql = SQL.read_text(encoding="utf-8")
        arguments.out.mkdir(parents=True, exist_ok=True)
        db = duckdb.connect()
        load(db, streams)
        db.execute(sql)
        for table in TABLES:
            write(db, table, arguments.out)
    except duckdb.Error as error:
        raise Failure(f"DuckDB: {error}") from error
    except OSError as error:
        raise Failure(str(error)) from error


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"rollup.py: {failure}")
