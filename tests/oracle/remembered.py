"""prometheus_client's parser of pages, which remembers what it made of the labels of a line.

Pages of one process repeat them, and to take them apart is nine tenths of the time that a page takes.
"""
from functools import lru_cache

from prometheus_client import parser
from prometheus_client.parser import text_string_to_metric_families as parse_text

_labels = lru_cache(maxsize=200_000)(parser.parse_labels)
_search = parser._next_unquoted_char
_end = lru_cache(maxsize=200_000)(lambda labels: _search(labels, "}"))


def _next_unquoted_char(text, chs, startidx=0):
    if chs == "}" and startidx == 0:
        # What comes behind the last one changes nothing.
        return _end(text[:text.rfind("}") + 1])
    if chs == "{" and '"' not in text[:text.find("{") + 1]:
        return text.find("{", startidx)
    return _search(text, chs, startidx)


parser._next_unquoted_char = _next_unquoted_char
# Each series gets labels of its own: whoever changes them changes no other's.
parser.parse_labels = lambda text, openmetrics=False: dict(_labels(text, openmetrics))

__all__ = ["parse_text"]
