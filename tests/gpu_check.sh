#!/bin/sh
# Runs the tests that need a CUDA device, all of them, and fails unless all ran and passed.
#
#   tests/gpu_check.sh                     with `python`
#   PYTHON=/opt/venv/bin/python tests/gpu_check.sh
#
# That Python needs torch, pytest and the packages that recompile-doctor depends on; recompile-doctor
# itself is taken from this folder. It takes some minutes, and ends after ten.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# A kernel that an earlier check has compiled would not be compiled now.
export TORCHINDUCTOR_CACHE_DIR="$scratch/inductor" TRITON_CACHE_DIR="$scratch/triton"
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"

"$python" -c '
import platform, torch
gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "no CUDA device"
print(f"torch {torch.__version__}, Python {platform.python_version()}, {gpu}")
'
status=0
timeout 590 "$python" -m pytest -m gpu tests/gpu -q -rA --durations=0 -p no:cacheprovider \
    --basetemp "$scratch/tests" --junitxml "$scratch/report.xml" "$@" || status=$?
if [ "$status" -ne 0 ]; then
    echo "gpu check: FAILED (pytest ended with $status)"
    exit 1
fi
# pytest is content when all tests were skipped.
"$python" - "$scratch/report.xml" <<'END'
import sys
import xml.etree.ElementTree as tree

suites = tree.parse(sys.argv[1]).getroot().iter("testsuite")
total = skipped = bad = 0
for suite in suites:
    total += int(suite.get("tests", 0))
    skipped += int(suite.get("skipped", 0))
    bad += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
passed = total - skipped - bad
ok = passed > 0 and not skipped and not bad
print(f"gpu check: {'ok' if ok else 'FAILED'} ({passed} passed, {skipped} skipped, {bad} failed)")
sys.exit(not ok)
END
