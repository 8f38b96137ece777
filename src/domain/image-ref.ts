/**
 * Names of images as users write them: `[server[:port]/]path[:tag][@digest]`. The grammar is that of the OCI distribution
 * specification, and the server is found as Docker finds it. Pure.
 */

import { DOCKER_HUB, canonicalServer, isSameServer, isRegistryServer } from './registry-server.ts';

/** No registry's: images of Berth's own, in an engine's store. */
const LOCAL_SERVER = 'berth.local';
const LONGEST_NAME = 255;

const PATH = /^[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*)*$/;
const TAG = /^\w[\w.-]{0,127}$/;
const DIGEST = /^sha256:[0-9a-f]{64}$/;
/** An engine would take it for the id of an image: alone, and after `sha256:`. */
const LIKE_AN_ID = /^[0-9a-f]{64}$/;
const LIKE_AN_ALGORITHM = /^(?:library\/)?sha256$/;

export interface ImageRef {
  /** As credentials are kept for it. */
  server: string;
  /** As the engine is asked: with the tag that goes without saying, if none is given. */
  ref: string;
}

/** The name, or, as text, what is wrong with it. */
export function parseImageRef(text: string): ImageRef | string {
  const at = text.indexOf('@');
  const digest = at === -1 ? null : text.slice(at + 1);
  const named = at === -1 ? text : text.slice(0, at);
  const colon = named.lastIndexOf(':');
  const tag = colon > named.lastIndexOf('/') ? named.slice(colon + 1) : null;
  const name = tag === null ? named : named.slice(0, colon);
  const { server, path } = splitServer(name);

  if (!isRegistryServer(server)) return `the server ${JSON.stringify(server)} is no host or host:port`;
  if (server.replace(/:\d+$/, '') === LOCAL_SERVER) return `${LOCAL_SERVER} is no registry`;
  if (!PATH.test(path) || name.length > LONGEST_NAME)
    return `${JSON.stringify(path)} is no name: it takes lower-case letters, digits, and single dots, dashes or underscores between them`;
  if (LIKE_AN_ID.test(path) || (LIKE_AN_ALGORITHM.test(path) && tag !== null && LIKE_AN_ID.test(tag)))
    return 'that is the id of an image; a name is asked for';
  if (tag !== null && !TAG.test(tag)) return `the tag ${JSON.stringify(tag)} is none`;
  if (digest !== null && !DIGEST.test(digest)) return 'the digest must be sha256: and 64 hexadecimal digits';
  return { server: canonicalServer(server), ref: digest === null && tag === null ? `${name}:latest` : text };
}

/** The server that a name is had from, of a name that was read before. */
export const registryServerOf = (ref: string): string => canonicalServer(splitServer(ref).server);

/** Whether it is one of the names that begin with `prefix`, a server and a path, however the server is written. */
export function isUnderPrefix(ref: string, prefix: string): boolean {
  const [one, other] = [splitServer(ref), splitServer(prefix)];
  return one.path.startsWith(`${other.path}/`) && isSameServer(one.server, other.server);
}

/** A server as users write it, in the form that credentials are kept by; or, as text, what is wrong with it. */
export function parseRegistryServer(text: string): { server: string } | string {
  const server = canonicalServer(text.toLowerCase());
  if (!isRegistryServer(server)) return 'it is no host or host:port';
  return server.replace(/:\d+$/, '') === LOCAL_SERVER ? `${LOCAL_SERVER} is no registry` : { server };
}

/** The first part is a server if it could be no folder: it has a dot, a colon or a capital, or is `localhost`. */
function splitServer(name: string): { server: string; path: string } {
  const slash = name.indexOf('/');
  const first = name.slice(0, Math.max(0, slash));
  return slash !== -1 && (/[.:A-Z]/.test(first) || first === 'localhost')
    ? { server: first.toLowerCase(), path: name.slice(slash + 1) }
    : { server: DOCKER_HUB, path: name };
}
