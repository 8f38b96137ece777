/** Paths of requests in the spellings of hurried clients, and below the prefix of a proxy. */
import { expect, test } from 'vitest';
import { plainAddress } from '../../../src/edge/http/request-path.ts';

const FILES = '/api/storage/volume/v/files';

test.each([
  ['/', '/'],
  ['/?a=b', '/?a=b'],
  ['//', '/'],
  ['/healthz/', '/healthz'],
  ['//api///instance/list//?x=//y/', '/api/instance/list?x=//y/'],
  ['/api/instance/list?x=//', '/api/instance/list?x=//'],
  [`${FILES}/a//b/`, `${FILES}/a//b/`],
  [`//api/storage//volume/v/files//a/`, `${FILES}//a/`],
  [`${FILES}/`, `${FILES}/`],
  ['*', '*'],
  ['http://h//x/', 'http://h//x/'],
])('without a prefix, %s is %s', (url, plain) => {
  expect(plainAddress(url, '')).toBe(plain);
});

test.each([
  ['/berth', '/'],
  ['/berth/', '/'],
  ['/berth?x', '/?x'],
  ['/berth/api//x', '/api/x'],
  ['/berth/berth', '/berth'],
  ['/berthing', '/berthing'],
  ['/api/x', '/api/x'],
])('behind a proxy that passes the prefix /berth, %s is %s', (url, plain) => {
  expect(plainAddress(url, '/berth')).toBe(plain);
});
