/**
 * Parses request target and Host into instance and port. Authorization, dialing and upstream path
 * use the parsed object, never the text: what is authorized is what is reached.
 */
import { isInstanceId, type InstanceId } from '../../domain/kernel/ids.ts';
import type { TrafficKind } from '../../control/index.ts';
import { NOTEBOOK_PORT } from '../../domain/access/port-access.ts';

export interface InstanceTarget {
  kind: 'instance';
  /** `host`: an own host, where the instance has all paths but `/.berth/`. */
  mount: 'notebook' | 'forward' | 'host';
  instanceId: InstanceId;
  port: number;
  /** The gateway's part of the path, without trailing slash; scope of the instance's cookies. */
  prefix: string;
  /** Path and query for the instance; starts with a slash. */
  upstreamPath: string;
  /** The address with a trailing slash, if the request lacks it. */
  withSlash: string | null;
}

export type PortAddress = Pick<InstanceTarget, 'instanceId' | 'port' | 'mount'>;

export type Target =
  | InstanceTarget
  /** `at`: port whose own host was addressed; null: the gateway's host. */
  | { kind: 'open'; query: string; at: { instanceId: InstanceId; port: number } | null }
  /** `path`: of a script of JupyterLab, after the prefix. */
  | { kind: 'lab'; path: string }
  /** `verb`: of the bar in an owner's notebook (`notebook-bar.ts`). */
  | { kind: 'bar'; verb: string; of: InstanceTarget }
  | { kind: 'unknown' }
  | { kind: 'refused'; why: string };

const UNKNOWN: Target = { kind: 'unknown' };
const INSTANCE_ID_LENGTH = 'notebook-'.length + 36;

const OURS_ON_HOSTS = '/.berth/';
const LAB = `${OURS_ON_HOSTS}lab/`;
export const OPEN_ON_HOSTS = `${OURS_ON_HOSTS}open`;

const SLASH = 0x2f;
const BACKSLASH = 0x5c;
const DOT = 0x2e;
const PERCENT = 0x25;
const HASH = 0x23;

/** `domain`: lower-case parent domain of port hosts; null in path mode. */
export function targetOf(host: string, requestTarget: string, domain: string | null): Target {
  if (requestTarget.charCodeAt(0) !== SLASH) {
    return {
      kind: 'refused',
      why: 'the request target must be a path: send "GET /path HTTP/1.1" and the host in the Host header',
    };
  }
  const mark = requestTarget.indexOf('?');
  const pathEnd = mark < 0 ? requestTarget.length : mark;
  const why = unsafeReason(requestTarget, pathEnd);
  if (why !== null) return { kind: 'refused', why };
  if (domain !== null && host.length > domain.length && isBelow(host.toLowerCase(), domain))
    return hostTarget(host.slice(0, -domain.length - 1).toLowerCase(), requestTarget, mark);
  if (requestTarget.startsWith('/notebook/')) return notebookTarget(requestTarget, pathEnd);
  if (requestTarget.startsWith('/forward/')) return forwardTarget(requestTarget, pathEnd);
  if (requestTarget.startsWith(LAB)) return { kind: 'lab', path: requestTarget.slice(LAB.length, pathEnd) };
  if (pathEnd === 5 && requestTarget.startsWith('/open')) {
    return { kind: 'open', query: mark < 0 ? '' : requestTarget.slice(mark + 1), at: null };
  }
  return UNKNOWN;
}

const isBelow = (host: string, domain: string): boolean =>
  host.endsWith(domain) && host.charCodeAt(host.length - domain.length - 1) === DOT;

/** Parses a port's own host. Berth's paths there are below a reserved name. */
function hostTarget(label: string, whole: string, mark: number): Target {
  const hyphen = label.indexOf('-');
  const port = portOf(label.slice(0, Math.max(0, hyphen)));
  const instanceId = label.slice(hyphen + 1);
  if (port === null || !isInstanceId(instanceId)) return UNKNOWN;
  if (whole.startsWith(OURS_ON_HOSTS)) {
    const path = mark < 0 ? whole : whole.slice(0, mark);
    if (path !== OPEN_ON_HOSTS) return UNKNOWN;
    return { kind: 'open', query: mark < 0 ? '' : whole.slice(mark + 1), at: { instanceId, port } };
  }
  return { kind: 'instance', mount: 'host', instanceId, port, prefix: '', upstreamPath: whole, withSlash: null };
}

function notebookTarget(whole: string, pathEnd: number): Target {
  const idEnd = '/notebook/'.length + INSTANCE_ID_LENGTH;
  const instanceId = whole.slice('/notebook/'.length, idEnd);
  if (pathEnd < idEnd || !isInstanceId(instanceId)) return UNKNOWN;
  if (pathEnd > idEnd && whole.charCodeAt(idEnd) !== SLASH) return UNKNOWN;
  const prefix = whole.slice(0, idEnd);
  const of: InstanceTarget = {
    kind: 'instance',
    mount: 'notebook',
    instanceId,
    port: NOTEBOOK_PORT,
    prefix,
    upstreamPath: whole,
    withSlash: pathEnd === idEnd ? `${prefix}/${whole.slice(pathEnd)}` : null,
  };
  const isOurs = whole.startsWith(OURS_ON_HOSTS, idEnd);
  return isOurs ? { kind: 'bar', verb: whole.slice(idEnd + OURS_ON_HOSTS.length, pathEnd), of } : of;
}

function forwardTarget(whole: string, pathEnd: number): Target {
  const idEnd = '/forward/'.length + INSTANCE_ID_LENGTH;
  const instanceId = whole.slice('/forward/'.length, idEnd);
  if (pathEnd < idEnd || !isInstanceId(instanceId) || whole.charCodeAt(idEnd) !== SLASH) return UNKNOWN;
  let portEnd = whole.indexOf('/', idEnd + 1);
  if (portEnd < 0 || portEnd > pathEnd) portEnd = pathEnd;
  const port = portOf(whole.slice(idEnd + 1, portEnd));
  if (port === null) return UNKNOWN;
  const prefix = whole.slice(0, portEnd);
  const rest = whole.slice(portEnd);
  return {
    kind: 'instance',
    mount: 'forward',
    instanceId,
    port,
    prefix,
    upstreamPath: portEnd === pathEnd ? `/${rest}` : rest,
    withSlash: portEnd === pathEnd ? `${prefix}/${rest}` : null,
  };
}

/** Parses 1..65535 without leading zeros: one spelling per port. */
export function portOf(text: string): number | null {
  if (text.length === 0 || text.length > 5 || text.charCodeAt(0) === 0x30) return null;
  let port = 0;
  for (let at = 0; at < text.length; at += 1) {
    const digit = text.charCodeAt(at) - 0x30;
    if (digit < 0 || digit > 9) return null;
    port = port * 10 + digit;
  }
  return port <= 65_535 ? port : null;
}

/** Refuses what another server might resolve to another instance (`..`, `%2e%2e`, backslashes). */
function unsafeReason(whole: string, pathEnd: number): string | null {
  let dots = false;
  for (let at = 0; at < pathEnd; at += 1) {
    const code = whole.charCodeAt(at);
    if (code === BACKSLASH || code === HASH) return 'the path must not contain "\\" or "#": send them percent-encoded';
    if (code <= 0x20 || code === 0x7f)
      return 'the path must not contain spaces or control characters: send them percent-encoded';
    const next = code === SLASH ? whole.charCodeAt(at + 1) : 0;
    dots ||= next === DOT || next === PERCENT;
  }
  if (dots && whole.slice(1, pathEnd).split('/').some(isDotSegment)) {
    return 'the path must not contain "." or ".." as a segment, encoded or not: resolve the path before sending';
  }
  return null;
}

function isDotSegment(segment: string): boolean {
  if (segment.length === 0 || segment.length > 6) return false;
  const plain = segment.replace(/%2e/gi, '.');
  return plain === '.' || plain === '..';
}

/** A notebook page polls and keeps WebSockets open even when nobody uses it. */
export function trafficKind(
  { mount, prefix, upstreamPath }: InstanceTarget,
  method: string,
  upgrade: boolean,
): TrafficKind {
  const asks = (method === 'GET' || method === 'HEAD') && upstreamPath.startsWith('/api/', prefix.length);
  return mount === 'notebook' && (upgrade || asks) ? 'poll' : 'use';
}
