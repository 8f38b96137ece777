/**
 * Programs that tests run. `npm test` installs those of `testNeeds` for the projects that need
 * programs; a test of another project asks `needsProgram` (`test/fixtures/programs.ts`) for one,
 * and is skipped by name without it. A test that runs any other program fails.
 */

/** Those of the essential packages of Debian, so on every machine that runs the tests. */
export const systemPrograms = `
  bash cat chmod cp dash dd df dpkg-deb dpkg-query du echo env fallocate false find findmnt
  flock fsfreeze grep kill ldd ln mkdir mkfifo mknod nice nsenter perl readlink rm script sed
  setpriv sh sha256sum sleep sync tar touch true truncate unshare
`
  .trim()
  .split(/\s+/);

/** @type {import('./apt.mjs').Need[]} */
export const testNeeds = [
  { apt: 'openssh-client', programs: ['ssh'], also: ['ssh-keygen', 'ssh-keyscan'], why: 'logs in to instances' },
  { apt: 'openssh-server', programs: ['sshd'], why: 'leads to a container engine on another host' },
  { apt: 'rsync', programs: ['rsync'], why: 'copies to and from instances over ssh' },
  { apt: 'curl', programs: ['curl'], why: 'connects through ports that ssh forwards' },
  // The dynamically linked busybox won't do: an image holds the program alone.
  { apt: 'busybox-static', programs: ['busybox'], exact: true, why: 'the smallest image that tests launch' },
  {
    apt: 'docker-registry',
    programs: ['docker-registry'],
    service: 'docker-registry',
    why: 'stores images, some only with credentials',
  },
  { apt: 'nginx-light', programs: ['nginx'], service: 'nginx', why: 'is a proxy in front of Berth' },
  { apt: 'caddy', programs: ['caddy'], service: 'caddy', why: 'is a proxy in front of Berth' },
  { apt: 'haproxy', programs: ['haproxy'], service: 'haproxy', why: 'is a proxy in front of Berth' },
  { apt: 'openssl', programs: ['openssl'], why: 'makes certificates of a proxy' },
  { apt: 'lxcfs', programs: ['lxcfs'], service: 'lxcfs', why: 'shows instances their own memory' },
  {
    apt: 'chromium',
    programs: ['chromium', 'chromium-browser', 'google-chrome'],
    why: 'opens the pages of the gateway and notebooks',
  },
  { apt: 'iproute2', programs: ['ip'], why: 'joins a host outside to the network of instances' },
  {
    apt: 'iptables',
    programs: ['iptables'],
    also: ['iptables-save', 'iptables-restore'],
    why: 'shows the rules of Berth',
  },
  { apt: 'oathtool', programs: ['oathtool'], why: 'makes codes as an authenticator app does' },
  { apt: 'procps', programs: ['ps'], why: 'lists the processes of the host' },
  { apt: 'e2fsprogs', programs: ['filefrag'], also: ['mkfs.ext4'], why: 'shows what disks share' },
  { apt: 'pgbouncer', programs: ['pgbouncer'], service: 'pgbouncer', why: 'pools connections to PostgreSQL' },
  // Debian's python3 alone makes no virtual environment.
  { apt: 'python3-venv', programs: ['python3'], exact: true, why: 'runs clients in Python' },
  { apt: 'git', programs: ['git'], why: 'clones this repository, as a newcomer does' },
];

/** Those of the project `neighbours` besides. @type {import('./apt.mjs').Need[]} */
export const neighbourNeeds = [
  { apt: 'default-jre-headless', programs: ['java'], why: 'runs Keycloak' },
  { apt: 'unzip', programs: ['unzip'], why: 'unpacks Keycloak' },
  { apt: 'glewlwyd', programs: ['glewlwyd'], service: 'glewlwyd', why: 'is a login provider' },
];
