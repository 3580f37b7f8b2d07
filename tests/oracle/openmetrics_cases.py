#!/usr/bin/env python3
"""Writes out the cases of prometheus_client's own parser tests: pages that a parser must take, and pages that it must not.

    openmetrics_cases.py [--text] [--into DIR] [--cache DIR]
    openmetrics_cases.py --sources                      (only downloads what it needs)

The OpenMetrics project's conformance cases were made from the same tests. The sources of prometheus_client 0.21.1 (the
last whose package holds its tests) are downloaded with pip into CACHE (default: target/prometheus_client), only if
they are not there yet. Their test module is run with a parser in place of the real one that notes down what it
is given, and whether an exception is expected. For every case, DIR (default: target/openmetrics-cases, with --text
target/prometheus-cases) gets

    NNN.txt      the page
    NNN.expect   "ok" or "bad", and the name of the test

--text: the cases for the Prometheus text format 0.0.4 instead.
Prints how many there are. The same cases get the same numbers on every run.
"""
import argparse
import contextlib
import hashlib
import importlib.util
import pathlib
import shutil
import subprocess
import sys
import tarfile
import unittest

VERSION = "0.21.1"
SHA256 = "252505a722ac04b0456be05c05f75f45d760c2911ffc45f2a06bcaed9f3ae3fb"
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAME = f"prometheus_client-{VERSION}"


def sources(cache):
    """The unpacked sources; downloaded if need be."""
    unpacked = cache / NAME
    if (unpacked / "tests" / "openmetrics" / "test_parser.py").is_file():
        return unpacked
    cache.mkdir(parents=True, exist_ok=True)
    packed = cache / f"{NAME}.tar.gz"
    if not packed.is_file():
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--no-binary", ":all:", "--dest", str(cache), f"prometheus_client=={VERSION}"], check=True)
    found = hashlib.sha256(packed.read_bytes()).hexdigest()
    if found != SHA256:
        sys.exit(f"openmetrics_cases: {packed} is not what it was: SHA-256 {found}, expected {SHA256}")
    with tarfile.open(packed) as tar:
        tar.extractall(cache, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    return unpacked


def record(module):
    """Every page that the tests of `module` parse: [(test, page, expected to fail)]."""
    cases = []

    class Recorder(unittest.TestCase):
        """In place of unittest.TestCase in the module: asserts nothing, knows where an exception is expected."""
        expected = False

        @contextlib.contextmanager
        def raising(self):
            self.expected = True
            with contextlib.suppress(Exception):
                yield
            self.expected = False

        def assertRaises(self, exception, function=None, *args, **kwargs):
            if function is None:
                return self.raising()
            self.expected = True
            with contextlib.suppress(Exception):
                result = function(*args)
                if hasattr(result, "__iter__"):
                    list(result)
            self.expected = False

    for name in ("assertEqual", "assertIsNone", "assertTrue", "assertFalse", "assertIn", "assertNotEqual"):
        setattr(Recorder, name, lambda self, *a, **k: None)

    for value in list(vars(module).values()):
        if isinstance(value, type) and issubclass(value, unittest.TestCase):
            tests = type(value.__name__, (Recorder,), {k: v for k, v in vars(value).items()
                                                      if not k.startswith("assert")})
            tests.assertEqualMetrics = lambda self, *a, **k: None
            for name in sorted((n for n in vars(value) if n.startswith("test")),
                               key=lambda n: vars(value)[n].__code__.co_firstlineno):
                test = tests(name)

                def note(page, test=test, name=name):
                    cases.append((name, page, test.expected))
                    if test.expected:
                        raise ValueError("recorded")
                    return iter(())

                def note_file(file, note=note):
                    return note(file.read())

                module.text_string_to_metric_families = note
                module.text_fd_to_metric_families = note_file
                before = len(cases)
                with contextlib.suppress(Exception):  # a test may go on with what was parsed; the page is noted by then
                    getattr(test, name)()
                if len(cases) == before:
                    print(f"no page in {name}", file=sys.stderr)
    return cases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", action="store_true")
    parser.add_argument("--sources", action="store_true")
    parser.add_argument("--into", type=pathlib.Path)
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / "target" / "prometheus_client")
    args = parser.parse_args()
    into = args.into or ROOT / "target" / ("prometheus-cases" if args.text else "openmetrics-cases")

    unpacked = sources(args.cache)
    if args.sources:
        return
    sys.path.insert(0, str(unpacked))
    path = unpacked / "tests" / ("test_parser.py" if args.text else "openmetrics/test_parser.py")
    spec = importlib.util.spec_from_file_location("recorded_tests", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    seen = {}
    for name, page, bad in record(module):
        page = page.encode("utf-8", "surrogatepass")
        if seen.setdefault(page, (name, bad))[1] != bad:
            sys.exit(f"openmetrics_cases: {name} and {seen[page][0]} disagree on one page")
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    for number, (page, (name, bad)) in enumerate(seen.items(), 1):
        (into / f"{number:03}.txt").write_bytes(page)
        (into / f"{number:03}.expect").write_text(f"{'bad' if bad else 'ok'} {name}\n")
    bad = sum(bad for _, bad in seen.values())
    print(f"{into}: {len(seen) - bad} ok, {bad} bad")


if __name__ == "__main__":
    main()
