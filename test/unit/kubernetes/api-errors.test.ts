/** Errors of the API server become a class, and a sentence that helps. */
import { describe, expect, test } from 'vitest';
import { errorOfAnswer, errorOfConnection, type ApiError, type Failure } from '../../../src/kubernetes/api-error.ts';
import { faultOf } from '../../../src/engines/kubernetes/cluster-faults.ts';
import { statusBody } from '../../fixtures/api-server.ts';

const answered = (httpStatus: number, reason: string, message: string): ApiError =>
  errorOfAnswer({
    httpStatus,
    body: JSON.stringify(statusBody(httpStatus, reason, message)),
    request: 'GET /api/v1/pods',
  });

const quota =
  'pods "a-0" is forbidden: exceeded quota: small, requested: limits.cpu=2, used: limits.cpu=3, limited: limits.cpu=4';
const rbac =
  'pods "a-0" is forbidden: User "system:serviceaccount:berth:berth" cannot create resource "pods/exec" in API group "" in the namespace "berth"';

const cases: { status: number; reason: string; message: string; failure: Failure; kind: string; retry: boolean }[] = [
  { status: 404, reason: 'NotFound', message: 'pods "a" not found', failure: 'absent', kind: 'not_found', retry: true },
  { status: 409, reason: 'AlreadyExists', message: 'exists', failure: 'exists', kind: 'busy', retry: true },
  {
    status: 409,
    reason: 'Conflict',
    message: 'the object has been modified',
    failure: 'conflict',
    kind: 'busy',
    retry: true,
  },
  {
    status: 410,
    reason: 'Expired',
    message: 'too old resource version',
    failure: 'expired',
    kind: 'busy',
    retry: true,
  },
  { status: 403, reason: 'Forbidden', message: rbac, failure: 'forbidden', kind: 'rejected', retry: true },
  { status: 403, reason: 'Forbidden', message: quota, failure: 'quota', kind: 'no_capacity', retry: true },
  {
    status: 403,
    reason: 'Forbidden',
    message: 'pods "a" is forbidden: maximum cpu usage per Container is 1',
    failure: 'quota',
    kind: 'no_capacity',
    retry: true,
  },
  {
    status: 403,
    reason: 'Forbidden',
    message: 'unable to create new content in namespace b because it is being terminated',
    failure: 'unavailable',
    kind: 'unreachable',
    retry: true,
  },
  {
    status: 401,
    reason: 'Unauthorized',
    message: 'Unauthorized',
    failure: 'unauthorized',
    kind: 'unreachable',
    retry: true,
  },
  {
    status: 400,
    reason: 'BadRequest',
    message: 'admission webhook "guard.example" denied the request: no latest tags',
    failure: 'denied',
    kind: 'rejected',
    retry: false,
  },
  {
    status: 403,
    reason: 'Forbidden',
    message: 'pods "a" is forbidden: violates PodSecurity "restricted:latest"',
    failure: 'denied',
    kind: 'rejected',
    retry: false,
  },
  {
    status: 422,
    reason: 'Invalid',
    message: 'StatefulSet is invalid',
    failure: 'invalid',
    kind: 'rejected',
    retry: false,
  },
  {
    status: 429,
    reason: 'TooManyRequests',
    message: 'too many requests',
    failure: 'throttled',
    kind: 'busy',
    retry: true,
  },
  {
    status: 500,
    reason: 'InternalError',
    message: 'status unknown for quota: small',
    failure: 'unavailable',
    kind: 'unreachable',
    retry: true,
  },
  {
    status: 503,
    reason: 'ServiceUnavailable',
    message: 'apiserver is shutting down',
    failure: 'unavailable',
    kind: 'unreachable',
    retry: true,
  },
];

describe('an answer', () => {
  test.for(cases)('$status $reason: $message', ({ status, reason, message, failure, kind, retry }) => {
    const error = answered(status, reason, message);
    expect(error).toMatchObject({ failure, httpStatus: status });
    expect(faultOf(error)).toMatchObject({ kind, retry, cause: error });
  });

  test('a missing verb is named with its resource', () => {
    expect(answered(403, 'Forbidden', rbac).message).toBe(
      'the cluster does not allow system:serviceaccount:berth:berth to create pods/exec in namespace berth; add the verb to its role',
    );
  });

  test('a used-up quota is quoted', () => {
    expect(faultOf(answered(403, 'Forbidden', quota)).message).toContain(
      'small, requested: limits.cpu=2, used: limits.cpu=3, limited: limits.cpu=4',
    );
  });

  test('a taken node port is named', () => {
    const message =
      'Service "a-ports" is invalid: spec.ports[0].nodePort: Invalid value: 30123: provided port is already allocated';
    expect(faultOf(answered(422, 'Invalid', message))).toMatchObject({
      kind: 'busy',
      reason: 'portTaken',
      takenNodePort: 30_123,
    });
  });

  test('without a Status its text counts, and the pause that the server asks for', () => {
    const error = errorOfAnswer({ httpStatus: 503, body: 'no backend', retryAfter: '7', request: 'GET /version' });
    expect(error).toMatchObject({ failure: 'unavailable', message: 'no backend', retryAfterMs: 7_000 });
    const empty = errorOfAnswer({ httpStatus: 502, body: '', request: 'GET /version' });
    expect(empty.message).toBe('the API server answered 502 to GET /version');
  });
});

describe('no answer', () => {
  const systemError = (code: string): Error => Object.assign(new Error(code), { code });

  test('is an engine that is away', () => {
    const error = errorOfConnection(systemError('ECONNREFUSED'), 'cluster:6443');
    expect(error.message).toBe('the API server cluster:6443 does not answer (ECONNREFUSED)');
    expect(faultOf(error)).toMatchObject({ kind: 'unreachable', retry: true });
  });

  test('a foreign certificate says what to enter', () => {
    expect(errorOfConnection(systemError('SELF_SIGNED_CERT_IN_CHAIN'), 'cluster:6443').message).toContain(
      'enter the certificate authority',
    );
  });

  test('a passed deadline and an abort are unknown, to retry', async () => {
    expect(faultOf(AbortSignal.abort().reason)).toMatchObject({ kind: 'unreachable', retry: true });
  });
});
