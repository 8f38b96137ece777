/** Cards of two models and parts of a third, made of plain device nodes, as engines show them. */
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

interface FakeNode {
  node: string;
  /** Node of the host that stands for it. */
  hostPath: string;
  major: number;
  minor: number;
}

interface FakeCard extends FakeNode {
  uuid: string;
  model: string;
  memoryMiB: number;
  /** Nodes of a part besides that of its card. */
  more?: FakeNode[];
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

/** Divided into the two devices of `migs`. */
const a100 = {
  uuid: 'GPU-44444444-4444-4444-4444-444444444444',
  model: 'NVIDIA A100-SXM4-40GB',
  memoryMiB: 40_960,
  profile: '3g.20gb',
};

const mig = (uuid: string, capability: number, hostPath: string, minor: number): FakeCard => ({
  uuid,
  model: `${a100.model} MIG ${a100.profile}`,
  memoryMiB: 20_480,
  node: '/dev/nvidia3',
  hostPath: '/dev/random',
  major: 1,
  minor: 8,
  more: [{ node: `/dev/nvidia-caps/nvidia-cap${capability}`, hostPath, major: 1, minor }],
});

export const migs = [
  mig('MIG-55555555-5555-5555-5555-555555555555', 21, '/dev/urandom', 9),
  mig('MIG-66666666-6666-6666-6666-666666666666', 30, '/dev/kmsg', 11),
];

export const nodesOf = (given: readonly FakeCard[]): FakeNode[] =>
  given.flatMap((card) => [card, ...(card.more ?? [])]);

const versions = { driverVersion: '610.43.02', cudaVersion: '13.3' };
const factsOf = (numaNode: number, ...links: [FakeCard | typeof a100, string][]) => ({
  facts: { ...versions, numaNode, links: Object.fromEntries(links.map(([{ uuid }, kind]) => [uuid, kind])) },
});
const factsOfCards = [
  factsOf(0, [l4, 'SYS'], [secondH200, 'NV18'], [a100, 'NODE']),
  factsOf(1, [h200, 'SYS'], [secondH200, 'SYS'], [a100, 'SYS']),
  factsOf(0, [h200, 'NV18'], [l4, 'SYS'], [a100, 'NODE']),
];

export const devices = [
  ...cards.map(({ uuid, model, memoryMiB }, nth) => ({
    kind: 'gpu',
    id: uuid,
    name: model,
    memoryMiB,
    share: 1,
    uuid,
    ...factsOfCards[nth],
  })),
  ...migs.map(({ uuid, model, memoryMiB }) => ({
    kind: 'gpu',
    id: uuid,
    name: model,
    memoryMiB,
    share: 0.5,
    slice: 'mig',
    card: a100.model,
    uuid: a100.uuid,
    ...factsOf(0, [h200, 'NODE'], [l4, 'SYS'], [secondH200, 'NODE']),
  })),
];

/** CDI spec with the names that `nvidia-ctk cdi generate` gives, and the driver's program. */
export function cdiSpec(folder: string): string {
  const program = { hostPath: path.join(folder, 'nvidia-smi'), containerPath: '/usr/bin/nvidia-smi' };
  const device = (name: string, of: FakeCard[]) => ({
    name,
    containerEdits: {
      deviceNodes: nodesOf(of).map(({ node, hostPath }) => ({ path: node, hostPath, permissions: 'rwm' })),
    },
  });
  return JSON.stringify({
    cdiVersion: '0.5.0',
    kind: 'nvidia.com/gpu',
    devices: [
      ...cards.flatMap((card, index) => [device(String(index), [card]), device(card.uuid, [card])]),
      ...migs.flatMap((part, nth) => [device(`3:${nth}`, [part]), device(part.uuid, [part])]),
      device('all', [...cards, ...migs]),
    ],
    containerEdits: {
      env: ['NVIDIA_VISIBLE_DEVICES=void'],
      mounts: [{ ...program, options: ['ro', 'nosuid', 'nodev', 'rbind', 'rprivate'] }],
    },
  });
}

const smiCards = [
  ...cards.map(({ uuid, memoryMiB, model }) => ({ uuid, memoryMiB, model, mig: '[N/A]' })),
  { ...a100, mig: 'Enabled' },
];
const smiList = [
  ...smiCards.map(({ model, uuid }, index) => `GPU ${index}: ${model} (UUID: ${uuid})`),
  ...migs.map(({ uuid }, nth) => `  MIG ${a100.profile}     Device  ${nth}: (UUID: ${uuid})`),
];

const topology = [
  ['', 'GPU0', 'GPU1', 'GPU2', 'GPU3', 'NIC0', 'CPU Affinity', 'NUMA Affinity', 'GPU NUMA ID'],
  ['GPU0', ' X ', 'SYS', 'NV18', 'NODE', 'PIX', '0-15', '0', '', 'N/A'],
  ['GPU1', 'SYS', ' X ', 'SYS', 'SYS', 'SYS', '16-31', '1', '', 'N/A'],
  ['GPU2', 'NV18', 'SYS', ' X ', 'NODE', 'PIX', '0-15', '0', '', 'N/A'],
  ['GPU3', 'NODE', 'SYS', 'NODE', ' X ', 'PIX', '0-15', '0', '', 'N/A'],
].map((row) => row.join('\t'));

/** Answers nothing, `-L`, `topo`, and `--query-gpu` for any fields, by `--loop` again and again. */
const smi = `#!/bin/sh
if [ "$1" = -L ]; then cat <<LIST
${smiList.join('\n')}
LIST
exit; fi
if [ $# = 0 ]; then echo '| NVIDIA-SMI 610.43.02   KMD Version: 610.43.02   CUDA UMD Version: 13.3 |'; exit; fi
if [ "$1" = topo ]; then cat <<TOPOLOGY
${topology.join('\n')}
TOPOLOGY
exit; fi
every=
for word; do case $word in
  --query-gpu=*) fields=$(echo "\${word#*=}" | tr , ' ') ;;
  --loop=*) every=\${word#*=} ;;
esac; done
while
while read -r index uuid memory mig name; do
  line=
  for field in $fields; do
    case $field in
      index) value=$index ;;
      uuid) value=$uuid ;;
      name) value=$name ;;
      memory.total) value=$memory ;;
      pci.bus_id) value=00000000:0$index:00.0 ;;
      temperature.gpu) value=33 ;;
      mig.mode.current) value=$mig ;;
      *) value='[N/A]' ;;
    esac
    line="$line\${line:+, }$value"
  done
  echo "$line"
done <<CARDS
${smiCards.map(({ uuid, memoryMiB, mig: mode, model }, index) => `${index} ${uuid} ${memoryMiB} ${mode} ${model}`).join('\n')}
CARDS
[ -n "$every" ]; do sleep $every; done
`;

/** A folder for `PATH` with `nvidia-smi`, and the runtime `nvidia` with its hook. */
export async function makeNvidiaFolder(): Promise<{ folder: string; remove(): Promise<void> }> {
  const folder = await mkdtemp(path.join(tmpdir(), 'berth-nvidia-'));
  await chmod(folder, 0o755);
  const list = [...cards, ...migs].flatMap((card, index) =>
    nodesOf([card]).map(({ node, major, minor }) => ({
      names: [card.uuid, ...(index < cards.length ? [String(index)] : [])],
      node,
      numbers: [String(major), String(minor)],
    })),
  );
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
