/** Cards of two models, made of plain device nodes, in the forms that engines give. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

interface FakeCard {
  uuid: string;
  model: string;
  memoryMiB: number;
  node: string;
  /** Node of the host that stands for the card. */
  hostPath: string;
  major: number;
  minor: number;
}

export const h200: FakeCard = {
  uuid: 'GPU-11111111-1111-1111-1111-111111111111',
  model: 'NVIDIA H200',
  memoryMiB: 143_771,
  node: '/dev/nvidia0',
  hostPath: '/dev/null',
  major: 1,
  minor: 3,
};

export const secondH200: FakeCard = {
  ...h200,
  uuid: 'GPU-33333333-3333-3333-3333-333333333333',
  node: '/dev/nvidia2',
  hostPath: '/dev/full',
  minor: 7,
};

export const l4: FakeCard = {
  uuid: 'GPU-22222222-2222-2222-2222-222222222222',
  model: 'NVIDIA L4',
  memoryMiB: 23_034,
  node: '/dev/nvidia1',
  hostPath: '/dev/zero',
  major: 1,
  minor: 5,
};

export const cards = [h200, l4, secondH200];

/** CDI spec with the names that `nvidia-ctk cdi generate` gives. */
export function cdiSpec(): string {
  const device = (name: string, of: FakeCard[]) => ({
    name,
    containerEdits: { deviceNodes: of.map(({ node, hostPath }) => ({ path: node, hostPath, permissions: 'rwm' })) },
  });
  return JSON.stringify({
    cdiVersion: '0.5.0',
    kind: 'nvidia.com/gpu',
    devices: [
      ...cards.flatMap((card, index) => [device(String(index), [card]), device(card.uuid, [card])]),
      device('all', cards),
    ],
    containerEdits: { env: ['NVIDIA_VISIBLE_DEVICES=void'] },
  });
}

/** Answers `--query-gpu` for any fields. */
const smi = `#!/bin/sh
for word; do case $word in --query-gpu=*) fields=$(echo "\${word#*=}" | tr , ' ') ;; esac; done
while read -r index uuid memory name; do
  line=
  for field in $fields; do
    case $field in
      index) value=$index ;;
      uuid) value=$uuid ;;
      name) value=$name ;;
      memory.total) value=$memory ;;
      *) value='[N/A]' ;;
    esac
    line="$line\${line:+, }$value"
  done
  echo "$line"
done <<CARDS
${cards.map(({ uuid, memoryMiB, model }, index) => `${index} ${uuid} ${memoryMiB} ${model}`).join('\n')}
CARDS
`;

/** A folder for `PATH` with `nvidia-smi`, and the runtime `nvidia` with its hook. */
export async function makeNvidiaFolder(): Promise<{ folder: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-nvidia-'));
  await chmod(folder, 0o755);
  const list = cards.map(({ uuid, node, major, minor }, index) => ({
    names: [uuid, String(index)],
    node,
    numbers: [String(major), String(minor)],
  }));
  await writeFile(path.join(folder, 'cards.json'), JSON.stringify(list));
  const program = path.join(import.meta.dirname, 'nvidia.mjs');
  const shim = (mode: string): string =>
    `#!/bin/sh\nexec '${process.execPath}' '${program}' '${folder}' ${mode} "$@"\n`;
  const programs = {
    'nvidia-smi': smi,
    'nvidia-runtime': shim('runtime'),
    'nvidia-container-runtime-hook': shim('hook'),
  };
  for (const [name, script] of Object.entries(programs))
    await writeFile(path.join(folder, name), script, { mode: 0o755 });
  return { folder, remove: () => rm(folder, { recursive: true }) };
}
