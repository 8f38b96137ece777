/** Karpenter with its provider of KWOK nodes, built once from public Go modules, for clusters. */
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { ensureGoProgram } from './go.mjs';

const karpenter = {
  title: 'Karpenter',
  leastGo: '1.26.6',
  name: 'sigs.k8s.io/karpenter@v1.14.1',
  sum: 'h1:GjqvOHLjl2+OXM0ti5VEZSQuvcitB0pETd8zdChXEtI=',
  main: './kwok',
};
const resources = [
  'pkg/apis/crds/karpenter.sh_nodeclaims.yaml',
  'pkg/apis/crds/karpenter.sh_nodepools.yaml',
  'pkg/apis/crds/karpenter.sh_nodeoverlays.yaml',
  'kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml',
];
const RESOURCES = 'resources.yaml';

/** The program, and a file of its custom resources. */
export async function ensureKarpenter() {
  const program = await ensureGoProgram(karpenter, async ({ source, unfinished }) => {
    const texts = resources.map((file) => readFileSync(path.join(source, file), 'utf8'));
    writeFileSync(path.join(unfinished, RESOURCES), texts.join('\n---\n'));
    return source;
  });
  return typeof program === 'string' ? { program, resources: path.join(path.dirname(program), RESOURCES) } : program;
}
