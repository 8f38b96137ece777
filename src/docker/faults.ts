/**
 * Maps the engine's answers to `EngineFault`s. Docker has no error codes, only a status, often 500
 * for a caller's mistake, and a sentence: those of Docker 20.10 to 28 and Podman 4. An unknown
 * answer becomes `rejected` or `unreachable`, both to retry, never "absent".
 */
import { z } from 'zod';
import { EngineFault, type FaultKind, type FaultReason } from '../domain/regions/engine-fault.ts';

const httpError = z.object({ statusCode: z.number(), json: z.unknown().optional(), message: z.string() });
const errorBody = z.union([
  z.object({ message: z.string() }),
  z.object({ cause: z.string() }),
  z.object({ error: z.string() }),
]);
const systemError = z.object({ code: z.string() });

export function statusOf(fault: unknown): number {
  const parsed = httpError.safeParse(fault instanceof EngineFault ? fault.cause : fault);
  return parsed.success ? parsed.data.statusCode : 0;
}

export function sentenceOf(fault: unknown): string {
  const error = fault instanceof EngineFault ? fault.cause : fault;
  const parsed = httpError.safeParse(error);
  if (!parsed.success) return error instanceof Error ? error.message : '';
  const body = errorBody.safeParse(parsed.data.json);
  // dockerode drops a stream's body, and only writes it into the message.
  if (!body.success) return parsed.data.message.replace(/^\(HTTP code \d+\) [^-]*- /, '').trim();
  const { data } = body;
  return 'message' in data ? data.message : 'cause' in data ? data.cause : data.error;
}

const portTaken = /port is already allocated|address already in use|ports are not available|failed to bind host port/i;

export interface Pattern {
  pattern: RegExp;
  kind: FaultKind;
  retry: boolean;
  reason?: FaultReason;
  message: string;
}

export const invalidRef: Pattern = {
  pattern: /invalid reference format|repository name must be/i,
  kind: 'rejected',
  retry: false,
  reason: 'imageMissing',
  message: 'the image name is invalid; write the name as registry/name:tag',
};

/** Precedes `diskFull`, which has the same error. */
const terminalsUsedUp: Pattern = {
  pattern: /(ptmx|pty|pts|console)\b.*no space left on device/i,
  kind: 'no_capacity',
  retry: true,
  message:
    'no terminal is left in the instance or on its host; close a terminal, or run the command without a terminal',
};

export const diskFull: Pattern = {
  pattern: /no space left on device|disk quota exceeded/i,
  kind: 'no_capacity',
  retry: true,
  reason: 'diskFull',
  message: "the host's disk is full; ask the operator to free space",
};

const patterns: readonly Pattern[] = [
  invalidRef,
  {
    pattern: /no such image|image not known|unable to find image|failed to find image/i,
    kind: 'not_found',
    retry: true,
    reason: 'imageMissing',
    message: 'the image is not on the host',
  },
  {
    pattern: /no such container|container not known/i,
    kind: 'not_found',
    retry: false,
    message: 'the container does not exist',
  },
  {
    pattern: /network \S+ (was )?not found|network not found|unable to find network|network \S+ is ambiguous/i,
    kind: 'busy',
    retry: true,
    message: "the account's network was removed meanwhile; Berth retries",
  },
  {
    // The engine's store is closed: other statements of a stopping engine are unreliable.
    pattern: /failed to \w+ (store|object|endpoint).*: open : no such file|^open : no such file or directory$/i,
    kind: 'unreachable',
    retry: true,
    message: 'the container engine is stopping',
  },
  {
    pattern: /endpoint with name \S+ already exists/i,
    kind: 'busy',
    retry: true,
    message: "an earlier start still holds the instance's place on the account's network; Berth retries",
  },
  {
    pattern: /failed to start shim: mkdir \S+: file exists/i,
    kind: 'busy',
    retry: true,
    message: 'the engine has not yet removed what a start before its crash left; Berth retries',
  },
  {
    pattern: /could not find bridge/i,
    kind: 'busy',
    retry: true,
    message: "the engine is still making the account's network for another start; Berth retries",
  },
  {
    pattern: portTaken,
    kind: 'busy',
    retry: true,
    reason: 'portTaken',
    message: 'a node port is taken by another program of the host',
  },
  {
    pattern: /no available ipv4 addresses|no available ip|could not find (a free|an available)/i,
    kind: 'no_capacity',
    retry: true,
    message: "the account's network has no free address; terminate an instance, then try again",
  },
  terminalsUsedUp,
  diskFull,
  {
    pattern: /minimum memory limit allowed|container init was oom-killed/i,
    kind: 'no_capacity',
    retry: false,
    reason: 'outOfMemory',
    message: 'the instance type has too little memory to start the instance; choose a larger type',
  },
  {
    pattern: /cannot allocate memory/i,
    kind: 'no_capacity',
    retry: true,
    reason: 'outOfMemory',
    message: 'the host is out of memory at the moment; stop an instance, or try again later',
  },
  {
    pattern: /resource temporarily unavailable/i,
    kind: 'no_capacity',
    retry: true,
    message: 'the host is out of memory or processes at the moment; stop an instance, or try again later',
  },
  {
    pattern: /range of cpus is from/i,
    kind: 'no_capacity',
    retry: false,
    reason: 'hostTooSmall',
    message: 'the host has fewer cores than the instance type; choose a smaller type',
  },
  {
    pattern: /could not select device driver|unresolvable cdi devices|failed to inject cdi/i,
    kind: 'no_capacity',
    retry: false,
    reason: 'gpuMissing',
    message: 'the host cannot provide GPUs; choose a type without GPUs, or ask the operator to set up the GPU runtime',
  },
  {
    pattern: /unknown or invalid runtime name|unknown runtime specified|(oci )?runtime \S+ not found/i,
    kind: 'rejected',
    retry: false,
    message:
      'the engine no longer has the container runtime of the instance type; ask the operator to install the runtime, or launch another type',
  },
  {
    pattern: /exec: "?\/bin\/sh"?: stat \/bin\/sh|\/bin\/sh.*no such file|executable file .?\/bin\/sh.? not found/i,
    kind: 'rejected',
    retry: false,
    reason: 'imageUnfit',
    message: 'the image has no /bin/sh, which starts every instance; choose an image with /bin/sh',
  },
  {
    pattern: /exec format error/i,
    kind: 'rejected',
    retry: false,
    reason: 'imageUnfit',
    message: "the image is for another processor architecture than the host's; choose an image for this architecture",
  },
  {
    pattern: /bind source path does not exist|statfs .*no such file or directory/i,
    kind: 'rejected',
    retry: true,
    reason: 'badMount',
    message: 'a folder to mount does not exist on the host',
  },
  {
    // After the pattern of a missing folder: these messages may contain both.
    pattern: /are you trying to mount a directory onto a file/i,
    kind: 'rejected',
    retry: false,
    reason: 'badMount',
    message: 'a folder cannot be mounted over a file of the image, nor a file over a folder; choose another mount path',
  },
];

export function faultOf(error: unknown): EngineFault {
  if (error instanceof EngineFault) return error;
  const status = statusOf(error);
  if (status === 0) return unansweredFault(error);
  const sentence = sentenceOf(error);
  const match = patterns.find(({ pattern }) => pattern.test(sentence));
  if (match !== undefined) {
    const { kind, message, retry, reason } = match;
    return new EngineFault(kind, message, { retry, reason, cause: error });
  }
  const text = redact(sentence);
  if (status === 401 || status === 403) {
    return new EngineFault('denied', `the container engine denied the request: ${text}`, {
      retry: false,
      cause: error,
    });
  }
  if (status === 409)
    return new EngineFault('busy', `the container engine is busy with the container: ${text}`, {
      retry: true,
      cause: error,
    });
  if (status === 502 || status === 503 || status === 504) {
    return new EngineFault('unreachable', 'the container engine does not answer', { retry: true, cause: error });
  }
  return new EngineFault('rejected', `the container engine refused the request: ${text}`, {
    retry: status >= 500,
    cause: error,
  });
}

/** Certificate that Node does not trust, or the engine's alert about ours. */
const untrusted =
  /^(CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_|ERR_TLS_CERT_|HOSTNAME_MISMATCH|INVALID_CA|INVALID_PURPOSE)/;
const denied = /^ERR_SSL_(?:TLSV1|TLSV13|SSLV3|SSL\/TLS)_ALERT_/;

/** Why no connection came about; the text is for operators. */
export class ConnectionError extends Error {}

function textOfTls(code: string, error: unknown): string | null {
  const words = error instanceof Error ? redact(error.message) : '';
  if (untrusted.test(code))
    return `the certificate of the container engine is not trusted (${words}); check "ca", and the host name in its certificate`;
  if (denied.test(code))
    return `the container engine denies the client certificate (${code.replace(denied, '').toLowerCase().replaceAll('_', ' ')}); check "credentials" and the authority that the engine trusts`;
  return code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'EPROTO'
    ? 'the port of the container engine does not speak TLS; Berth uses no unencrypted port'
    : null;
}

function unansweredFault(error: unknown): EngineFault {
  const parsed = systemError.safeParse(error);
  const code = parsed.success ? parsed.data.code : '';
  const text =
    error instanceof ConnectionError
      ? error.message
      : error instanceof Error && (error.name === 'AbortError' || error.name === 'TimeoutError')
        ? 'the container engine did not answer in time'
        : code === 'EACCES' || code === 'EPERM'
          ? 'the user that runs Berth may not open the socket of the container engine'
          : (textOfTls(code, error) ?? 'the container engine does not answer');
  return new EngineFault('unreachable', text, { retry: true, cause: error });
}

/** Redacts host paths and long ids from an engine's message. One line, at most 300 characters. */
export function redact(sentence: string): string {
  return sentence
    .replace(/\s+/g, ' ')
    .replace(/(\/[\w.@+:-]+){3,}\/?/g, '(a path)')
    .replace(/\b([0-9a-f]{12})[0-9a-f]{52}\b/g, '$1')
    .trim()
    .slice(0, 300);
}

export function takenPort(fault: unknown, nodePorts: readonly number[]): number | null {
  const sentence = sentenceOf(fault);
  if (!portTaken.test(sentence)) return null;
  for (const [number] of sentence.matchAll(/\d{2,5}/g)) if (nodePorts.includes(Number(number))) return Number(number);
  return nodePorts[0] ?? null;
}

/** An engine stopped during starts may count ports as used until its restart (seen with 28.2). */
export const portTakenText = (nodePort: number, fault: unknown): string =>
  /already allocated/i.test(sentenceOf(fault))
    ? `the container engine counts node port ${nodePort} as used by another container; if no container uses the port, a restart of the engine frees it`
    : `node port ${nodePort} is taken by another program of the host`;

export const isNameTaken = (fault: unknown): boolean => {
  const status = statusOf(fault);
  return (
    (status === 409 || status === 500) && /name .*(is )?already in use|name already exists/i.test(sentenceOf(fault))
  );
};

/** An engine may know only the processors of its start. */
export const hasNoSuchProcessor = (fault: unknown): boolean =>
  /requested cpus are not available/i.test(sentenceOf(fault));

/** The runtime still runs a container that a killed engine no longer tracks (seen with 20.10). */
export const isUntracked = (fault: unknown): boolean =>
  statusOf(fault) === 500 && /\btask \S+: already exists|\bid already in use/i.test(sentenceOf(fault));

/** Folder of a run that containerd did not remove, which fails each later start; or null. */
export const bundleInTheWay = (fault: unknown): string | null =>
  /failed to start shim: mkdir (\/\S+): file exists/i.exec(sentenceOf(fault))?.[1] ?? null;

/** Matches the engine's words: a bare 404 may come from another server at its address. */
export const isContainerGone = (fault: unknown): boolean =>
  statusOf(fault) === 404 && /no such container|no container with name or id/i.test(sentenceOf(fault));

/** Whether a command has no running container: it is there, and has ended. */
export const isNotRunning = (fault: unknown): boolean =>
  statusOf(fault) === 409 && /is not running|is restarting|marked for removal/i.test(sentenceOf(fault));

/** Gone, or duplicate, so the name is useless. */
export const isNetworkGone = (fault: unknown): boolean =>
  statusOf(fault) >= 400 &&
  /network/i.test(sentenceOf(fault)) &&
  /not found|unable to find|is ambiguous/i.test(sentenceOf(fault));

export const isImageGone = (fault: unknown): boolean =>
  fault instanceof EngineFault && fault.kind === 'not_found' && /image/i.test(sentenceOf(fault));

export const abortFault = ({ reason }: AbortSignal): EngineFault => faultOf(reason);
