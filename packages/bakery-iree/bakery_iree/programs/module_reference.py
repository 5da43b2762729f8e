"""Call Python functions on NumPy arrays, and save their results.

Usage: module_reference.py CALLS.json RESULT.json

CALLS is a list of ``{"file": "reference.py", "function": "softmax", "arguments": [{"npy": "a.npy", "dtype": "float32"},
{"number": "3"}], "results": ["0.0.npy"]}``. RESULT is a list of texts: empty, or why a call has no results. NumPy has no
bfloat16; such arrays become float32.
"""

from __future__ import annotations

import json
import runpy
import sys
import traceback
from typing import Any, Dict, List

import numpy as np


def argument(spec: Dict[str, str]) -> Any:
    """Return an argument of a function."""
    if "number" in spec:
        return float(spec["number"]) if set(spec["number"].lower()) & set(".en") else int(spec["number"])
    array = np.load(spec["npy"], allow_pickle=False)
    if spec["dtype"] == "bfloat16":
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return array


def call(spec: Dict[str, Any]) -> str:
    """Call one function and save its results; return why that failed."""
    try:
        function = runpy.run_path(spec["file"]).get(spec["function"])
        if not callable(function):
            return "there is no function " + str(spec["function"])
        returned = function(*map(argument, spec["arguments"]))
        results: List[Any] = list(returned) if isinstance(returned, (tuple, list)) else [returned]
        if len(results) != len(spec["results"]):
            return "it returned %s arrays, the module returns %s" % (len(results), len(spec["results"]))
        for index, name in enumerate(spec["results"]):
            array = np.asarray(results[index])
            if array.dtype.kind not in "biufc":
                return "it returned %s, not an array of numbers" % type(results[index]).__name__
            np.save(name, np.array(array, order="C"))
    except BaseException:
        return str(traceback.format_exc(limit=-3))[-3000:]
    return ""


def main() -> None:
    """Make all calls."""
    with open(sys.argv[1]) as file:
        calls = json.load(file)
    results = [call(spec) for spec in calls]
    with open(sys.argv[2], "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
