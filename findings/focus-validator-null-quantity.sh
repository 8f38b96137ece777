#!/bin/sh
# Software:  focus-validator 2.2.1 (PyPI), with its own rules model-1.2.0.1.json of FOCUS 1.2.
# Source:    the rule ConsumedQuantity-C-006-C in focus_validator/rules/model-1.2.0.1.json.
#
# Behaviour: usage rows without a ConsumedQuantity pass each rule about that column.
# Surprise:  the text of the rule, and the specification, say that ConsumedQuantity must not be null
#            when ChargeClass is not "Correction". A report that lost all its quantities is called
#            right.
# Guess:     the condition of the rule is ChargeClass = "Correction": the "not" of its text is lost,
#            so the rule looks at corrections alone.
# Use:       count null quantities of usage rows yourself.
# Needs:     Python 3.12 or later. The program also reads a file relative to the folder that holds
#            its package, so it runs there.
# Output:    text: ConsumedQuantity MUST NOT be null when ChargeClass is not "Correction".
#            condition: ChargeClass is Correction
#            usage rows without a quantity: ConsumedQuantity-C-006-C PASS
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
cat >"$folder/usage.csv" <<'CSV'
ChargeCategory,ChargeClass,CommitmentDiscountStatus,ConsumedQuantity,ConsumedUnit
Usage,,,,Hours
Usage,,,,Hours
CSV
cd "$("$folder/venv/bin/python" -c 'import focus_validator, os; print(os.path.dirname(os.path.dirname(focus_validator.__file__)))')"
"$folder/venv/bin/python" - <<'PYTHON'
import json

model = json.load(open("focus_validator/rules/model-1.2.0.1.json"))


def found(part):
    if isinstance(part, dict):
        yield from [part["ConsumedQuantity-C-006-C"]] if "ConsumedQuantity-C-006-C" in part else []
        for value in part.values():
            yield from found(value)


rule = next(found(model))["ValidationCriteria"]
condition = rule["Condition"]
print("text:", rule["MustSatisfy"])
print("condition:", condition["ColumnName"], {"CheckValue": "is"}.get(condition["CheckFunction"], "?"), condition["Value"])
PYTHON
said=$("$folder/venv/bin/focus-validator" --data-file "$folder/usage.csv" --validate-version 1.2 \
  --block-download --focus-dataset CostAndUsage --applicability-criteria USAGE_MEASUREMENT_SUPPORTED \
  --filter-rules ConsumedQuantity 2>&1) || true
verdict=$(printf '%s\n' "$said" | sed -n 's/.*\(ConsumedQuantity-C-006-C\): \([A-Z]*\).*/\1 \2/p' | head -n 1)
echo "usage rows without a quantity: $verdict"
[ "$verdict" = 'ConsumedQuantity-C-006-C PASS' ]
