/** Cards of this machine that its engine cannot give, and what helps. */
import { readdir, readFile } from 'node:fs/promises';

const NVIDIA = '0x10de';
const DISPLAYS = /^0x030[02]/;
const TOOLKIT = 'nvidia-container-toolkit';

const managers: [ids: RegExp, install: string][] = [
  [/debian|ubuntu/, 'apt-get install -y'],
  [/fedora|rhel|centos/, 'dnf install -y'],
  [/suse/, 'zypper install -y'],
  [/arch/, 'pacman -S --noconfirm'],
];

interface Places {
  devices: string;
  driver: string;
  osRelease: string;
}
const here: Places = {
  devices: '/sys/bus/pci/devices',
  driver: '/proc/driver/nvidia/version',
  osRelease: '/etc/os-release',
};

/** Null: no card, or not known. Else the end of a sentence about the region. */
export async function whyNoGpus(
  { podman }: { podman: boolean },
  { devices, driver, osRelease }: Places = here,
): Promise<string | null> {
  const read = (file: string): Promise<string> => readFile(file, 'utf8').catch(() => '');
  const names = await readdir(devices).catch(() => []);
  const cards = await Promise.all(
    names.map(async (name) => {
      const vendor = await read(`${devices}/${name}/vendor`);
      return vendor.trim() === NVIDIA && DISPLAYS.test(await read(`${devices}/${name}/class`));
    }),
  );
  const count = cards.filter(Boolean).length;
  if (count === 0) return null;
  const have = `the machine has ${count === 1 ? 'an NVIDIA card' : `${count} NVIDIA cards`}`;
  if ((await read(driver)) === '')
    return `${have} and no NVIDIA driver is loaded: install one for this kernel, and check it with "nvidia-smi"`;
  if (podman)
    return `${have}, and Podman ignores requests of devices at its Docker-compatible API: use Docker as the engine`;
  const ids = /^ID(?:_LIKE)?=.*$/gm;
  const system = ((await read(osRelease)).match(ids) ?? []).join(' ');
  const install = managers.find(([known]) => known.test(system))?.[1];
  const toolkit = install === undefined ? `install ${TOOLKIT}` : `"${install} ${TOOLKIT}" (from NVIDIA's repository)`;
  return `${have}, and the engine has no way to give it to a container: ${toolkit}, then "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml" for Docker 28.3 or later, or "nvidia-ctk runtime configure --runtime=docker" for an earlier one, and restart the engine`;
}
