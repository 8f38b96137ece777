#!/bin/sh
# Software:  focus-validator 2.2.1 (PyPI), with its own rules model-1.2.0.1.json of FOCUS 1.2.
# Source:    the rules InvoiceId-C-004-C and InvoiceId-C-005-C in
#            focus_validator/rules/model-1.2.0.1.json.
#
# Behaviour: a row with an InvoiceId fails InvoiceId-C-004-C, one without fails InvoiceId-C-005-C.
# Surprise:  the texts of the rules exclude each other: null without an invoice, not null with one.
#            So no report passes both, and a report of a provider that writes invoices has an error.
# Guess:     no column says whether an invoice exists, so the conditions of both rules are empty,
#            and each counts for all rows. Their parent, InvoiceId-C-003-C, wants one of the two.
# Use:       take the verdict of InvoiceId-C-003-C, and leave these two out.
# Needs:     Python 3.12 or later. The program also reads a file relative to the folder that holds
#            its package, so it runs there.
# Output:    with an id: InvoiceId-C-003-C PASS InvoiceId-C-004-C FAIL InvoiceId-C-005-C PASS
#            without: InvoiceId-C-003-C PASS InvoiceId-C-004-C PASS InvoiceId-C-005-C FAIL
# Exit:      0 while the behaviour is as described, 1 once it changes, 2 without such a Python.
set -eu
for python in python3 python3.14 python3.13 python3.12 none; do
  [ "$python" != none ] || { echo 'Python 3.12 or later is missing' >&2; exit 2; }
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && break
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'focus-validator==2.2.1' 'pyarrow==19.0.1' >&2
cd "$("$folder/venv/bin/python" -c 'import focus_validator, os; print(os.path.dirname(os.path.dirname(focus_validator.__file__)))')"

# Prints the verdicts over one row with this InvoiceId.
verdicts() {
  printf 'ChargeCategory,InvoiceId\nUsage,%s\n' "$1" >"$folder/usage.csv"
  said=$("$folder/venv/bin/focus-validator" --data-file "$folder/usage.csv" --validate-version 1.2 \
    --block-download --focus-dataset CostAndUsage --filter-rules InvoiceId 2>&1) || true
  printf '%s\n' "$said" | sed -n 's/^[^ ]* \(InvoiceId-C-00[345]-C: [A-Z]*\) .*/\1/p' | sort -u | tr -d ':' | xargs
}
with=$(verdicts INV-1)
without=$(verdicts '')
echo "with an id: $with"
echo "without: $without"
[ "$with" = 'InvoiceId-C-003-C PASS InvoiceId-C-004-C FAIL InvoiceId-C-005-C PASS' ]
[ "$without" = 'InvoiceId-C-003-C PASS InvoiceId-C-004-C PASS InvoiceId-C-005-C FAIL' ]
