/** Faults of pulls and pushes, from the engine's one sentence about a registry's answer. Pure. */
import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { diskFull, faultOf, invalidRef, redact, sentenceOf, statusOf, type Pattern } from '../../../docker/faults.ts';
import { listedRef, splitRef } from './refs.ts';

export class TransferError extends Error {
  override readonly name = 'TransferError';
}

/** Without any answer the engine is away, not the registry. */
export function registryFault(ref: string, error: unknown): EngineFault {
  const inner = error instanceof EngineFault ? error.cause : error;
  const sentence = inner instanceof TransferError ? inner.message : sentenceOf(error);
  if (statusOf(error) === 0 && !(inner instanceof TransferError)) return faultOf(error);
  const words = withoutNames(sentence, ref);
  const match = patterns.find(({ pattern }) => pattern.test(words));
  if (match !== undefined) {
    const { kind, retry, reason, message } = match;
    const text = message.replace('{detail}', () => redact(sentence));
    return new EngineFault(kind, `${ref}: ${text}`, { retry, reason, cause: inner });
  }
  const kind = statusOf(error) >= 500 || inner instanceof TransferError ? 'unreachable' : 'rejected';
  return new EngineFault(kind, `${ref}: ${redact(sentence)}`, { retry: true, cause: inner });
}

/** Removes the image's name, which may be `tools/tls:404`, before patterns are matched. */
function withoutNames(sentence: string, ref: string): string {
  const { repository, tag } = splitRef(ref);
  const names = [repository, listedRef(repository), repository.slice(repository.indexOf('/') + 1)];
  return [...names.map((name) => splitRef(name).repository), tag].reduce(
    (text, name) => text.replaceAll(new RegExp(`(?<![\\w.-])${RegExp.escape(name)}(?![\\w.-])`, 'g'), '(name)'),
    sentence,
  );
}

/** Ordered: later patterns match messages meant for earlier ones. `{detail}`: the answer. */
const patterns: readonly Pattern[] = [
  diskFull,
  {
    pattern: /toomanyrequests|rate limit/i,
    kind: 'unreachable',
    retry: true,
    reason: 'registryAway',
    message: 'the registry allows no more pulls for now',
  },
  {
    pattern: /pull access denied|unauthorized|authentication required|denied|no basic auth|forbidden|\b40[13]\b/i,
    kind: 'denied',
    retry: false,
    reason: 'imageDenied',
    message: 'the registry denies access: the image does not exist, or needs other credentials',
  },
  {
    pattern: /no matching manifest|does not match the specified platform|image operating system/i,
    kind: 'rejected',
    retry: false,
    reason: 'imageUnfit',
    message: "the image is not for the host's processor architecture; choose an image for this architecture",
  },
  {
    // Retried: corruption in transit looks the same as a corrupt image.
    pattern:
      /layer verification failed|failed to register layer|invalid tar header|invalid checksum|unsupported (media|manifest)|manifest verification failed|invalid character .* looking for|unexpected end of json/i,
    kind: 'rejected',
    retry: true,
    reason: 'imageUnfit',
    message: 'the image is corrupt ({detail}); push the image again, or choose another',
  },
  {
    pattern:
      /no such host|timeout|timed out|connection refused|connection reset|network is unreachable|no route to host|\beof\b|tls|x509|server gave http response|\b50[0234]\b|internal server error|bad gateway|service unavailable|deadline exceeded|temporary failure/i,
    kind: 'unreachable',
    retry: true,
    reason: 'registryAway',
    message: 'the registry is unreachable or failing ({detail})',
  },
  {
    pattern:
      /manifest unknown|manifest for .* not found|not found|name unknown|repository .* does not exist|does not exist locally|tag does not exist|\b404\b/i,
    kind: 'not_found',
    retry: true,
    reason: 'imageMissing',
    message: 'the image does not exist; check its name and tag',
  },
  invalidRef,
];
