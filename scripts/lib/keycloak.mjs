/** Keycloak for `npm run test:world`: fetched once from Maven Central; runs on Java 17 or later. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { execFileSync } from 'node:child_process';
import { cacheFolder } from './go.mjs';

const VERSION = '26.5.6';
const SHA256 = '490189d9dff05272432d51f71a069462eeca97f2920a694d539a1e6c26a5a347';
const URL_OF_ZIP = `https://repo1.maven.org/maven2/org/keycloak/keycloak-quarkus-dist/${VERSION}/keycloak-quarkus-dist-${VERSION}.zip`;

/** Returns the folder of the distribution. Throws without Java, unzip or network. */
export async function ensureKeycloak() {
  const parent = cacheFolder('keycloak');
  const folder = path.join(parent, `keycloak-${VERSION}`);
  if (existsSync(folder)) return folder;
  const response = await fetch(URL_OF_ZIP);
  if (!response.ok) throw new Error(`${URL_OF_ZIP} answers ${response.status}`);
  const bytes = Buffer.from(await response.arrayBuffer());
  const sum = createHash('sha256').update(bytes).digest('hex');
  if (sum !== SHA256) throw new Error(`${URL_OF_ZIP} has the checksum ${sum}, not ${SHA256}`);
  const fresh = path.join(parent, `fresh-${process.pid}`);
  mkdirSync(fresh, { recursive: true });
  writeFileSync(path.join(fresh, 'keycloak.zip'), bytes);
  execFileSync('unzip', ['-q', 'keycloak.zip'], { cwd: fresh });
  renameSync(path.join(fresh, `keycloak-${VERSION}`), folder);
  rmSync(fresh, { recursive: true });
  return folder;
}
