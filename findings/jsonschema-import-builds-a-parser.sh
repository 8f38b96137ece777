#!/bin/sh
# Software:  jsonschema 4.26.0, its extra format-nongpl, rfc3987-syntax 1.1.0 and lark 1.3.1.
# Source:    PyPI; jsonschema/_format.py, rfc3987_syntax/syntax_helpers.py. Since 4.25 the extra
#            brings rfc3987-syntax; jupyter-events, and so each Jupyter server, asks for the extra.
#
# Behaviour: `import jsonschema` parses a grammar of RFC 3987 with lark and builds an Earley parser
#            of it, in more than five times the processor time of the import (here about 15 times,
#            some seconds), before a schema or an IRI is seen. With the parser's package removed the
#            import is quick again, and schemas without IRIs are validated as before.
# Surprise:  formats are checked only where a FormatChecker is given, and then at the first use of
#            a format; the price is paid at the import, by programs that check none.
# Guess:     an optional package costs what an import costs; parsers are built at the first call.
# Use:       hold jsonschema below 4.25 where a server's start matters.
# Output:    without the extra: lark loaded False
#            with the extra: lark loaded True
#            more than 5 times the processor time: True
# Exit:      0 while the behaviour is as described, 1 once it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv plain
python3 -m venv extra
plain/bin/pip install -q --disable-pip-version-check jsonschema==4.26.0 >&2
extra/bin/pip install -q --disable-pip-version-check 'jsonschema[format-nongpl]==4.26.0' \
  rfc3987-syntax==1.1.0 lark==1.3.1 >&2
cat >once.py <<'SCRIPT'
import sys
import time

began = time.process_time()
import jsonschema

took = time.process_time() - began
jsonschema.validate({"a": 1}, {"properties": {"a": {"type": "integer"}}})
print(took, "lark" in sys.modules)
SCRIPT
cat >compare.py <<'SCRIPT'
import statistics
import subprocess


def runs(of):
    read = lambda: subprocess.check_output([f"{of}/bin/python", "once.py"], text=True).split()
    return [read() for _ in range(4)][1:]


plain, extra = runs("plain"), runs("extra")
median = lambda rows: statistics.median(float(row[0]) for row in rows)
print("without the extra: lark loaded", plain[0][1])
print("with the extra: lark loaded", extra[0][1])
print("more than 5 times the processor time:", median(extra) > 5 * median(plain))
SCRIPT
python3 compare.py | tee output
cat >expected <<'SCRIPT'
without the extra: lark loaded False
with the extra: lark loaded True
more than 5 times the processor time: True
SCRIPT
cmp -s output expected
