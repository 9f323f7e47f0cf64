"""Checks ONNX files with the format's own checker: check_onnx.py FILE..."""
import sys

import onnx

for path in sys.argv[1:]:
    onnx.checker.check_model(path)
