#!/bin/sh
# Software:  @marcbachmann/cel-js 8.0.0, the macro has(); beside it @bufbuild/cel 0.6.1.
# Source:    npm packages; lib/macros.js of cel-js. The language: has(e.f) for any expression e.
#
# Behaviour: has(device.attributes["gpu.example.com"].model) is refused with "has() invalid argument",
#            whether the member is there or not: every part of the path must be a name, and an index
#            anywhere in it ends the check. The same expression without has() is evaluated.
# Surprise:  selectors of Kubernetes' devices have this form, because the names of their domains
#            contain dots and can only be indexes; API server and @bufbuild/cel take it.
# Guess:     the macro walks the path down to an identifier and knows no node of an index.
# Use:       has(a[k].f) as a[?k].?f.hasValue() with enableOptionalTypes.
# Output:    has(d.attributes.plain.model): cel-js true, cel true
#            has(d.attributes["gpu.example.com"].model): cel-js has() invalid argument, cel true
#            has(d.attributes["gpu.example.com"].none): cel-js has() invalid argument, cel false
#            d.attributes["gpu.example.com"].model == "A": cel-js true, cel true
#            d.attributes[?"gpu.example.com"].?model.hasValue(): cel-js true
# Exit:      0 while the behaviour is as described, 1 once it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-save --no-audit --no-fund @marcbachmann/cel-js@8.0.0 @bufbuild/cel@0.6.1 >&2
cat >check.mjs <<'SCRIPT'
import { Environment } from '@marcbachmann/cel-js';
import { run } from '@bufbuild/cel';

const d = { attributes: { plain: { model: 'A' }, 'gpu.example.com': { model: 'A' } } };
const environment = new Environment({ enableOptionalTypes: true }).registerVariable('d', 'map');
const inWords = (evaluate) => {
  try {
    return String(evaluate());
  } catch (error) {
    return error.message.split('\n')[0];
  }
};
const refused = 'has() invalid argument';
const cases = [
  ['has(d.attributes.plain.model)', 'true', 'true'],
  ['has(d.attributes["gpu.example.com"].model)', refused, 'true'],
  ['has(d.attributes["gpu.example.com"].none)', refused, 'false'],
  ['d.attributes["gpu.example.com"].model == "A"', 'true', 'true'],
  ['d.attributes[?"gpu.example.com"].?model.hasValue()', 'true', null],
];
for (const [expression, ofJs, ofCel] of cases) {
  const js = inWords(() => environment.evaluate(expression, { d }));
  const cel = ofCel === null ? null : inWords(() => run(expression, { d }));
  console.log(`${expression}: cel-js ${js}${cel === null ? '' : `, cel ${cel}`}`);
  if (js !== ofJs || cel !== ofCel) process.exitCode = 1;
}
SCRIPT
node check.mjs
