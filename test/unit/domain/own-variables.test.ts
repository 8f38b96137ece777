import { expect, it } from 'vitest';
import { ownVariables } from '../../../src/domain/compute/own-variables.ts';

const of = (cpuCores: number, network = {}): Record<string, string> =>
  Object.fromEntries(ownVariables({ id: 'i', spec: { type: { cpuCores } } }, { path: '', host: null }, network));

it.each([
  [0.5, '1'],
  [2, '2'],
  [2.5, '3'],
])('%d processors make pools of %s', (cpuCores, count) => {
  expect(of(cpuCores)).toMatchObject({ OMP_NUM_THREADS: count, PYTHON_CPU_COUNT: count });
});

it.each([
  [null, '/forward/i/{port}', 'http://gw.test/forward/i/{port}/'],
  ['http://{port}-i.gpu.test/', '', 'http://{port}-i.gpu.test/'],
])('programs find prefix and address of each port, with host %s', (host, prefix, url) => {
  const path = 'http://gw.test/forward/i/{port}/';
  const variables = ownVariables({ id: 'i', spec: { type: { cpuCores: 1 } } }, { path, host });
  expect([variables.get('BERTH_PORT_PREFIX'), variables.get('BERTH_PORT_URL')]).toEqual([prefix, url]);
});

it('without networks of the operator there are no variables for them', () => {
  expect(Object.keys(of(1)).filter((name) => /proxy|SSL|PIP|APT/i.test(name))).toEqual([]);
});

it('a proxy is named in both spellings, and not used for the instance itself', () => {
  const proxy = 'http://proxy.test:3128';
  const variables = of(1, { proxy, noProxy: ['.intern'] });
  expect(variables).toMatchObject({ HTTPS_PROXY: proxy, https_proxy: proxy, HTTP_PROXY: proxy, http_proxy: proxy });
  expect(variables['no_proxy']).toBe('localhost,127.0.0.1,::1,.intern');
});

it('an index without TLS is trusted by name', () => {
  expect(of(1, { pipIndex: 'http://pypi.test:8080/simple' })).toMatchObject({ PIP_TRUSTED_HOST: 'pypi.test' });
  expect(of(1, { pipIndex: 'https://pypi.test/simple' })).not.toHaveProperty('PIP_TRUSTED_HOST');
});

it('certificates are added for Node, and are in the bundle for others', () => {
  const variables = of(1, { ca: 'pem' });
  expect(variables['NODE_EXTRA_CA_CERTS']).toBe('/etc/berth/ca.pem');
  for (const name of ['SSL_CERT_FILE', 'REQUESTS_CA_BUNDLE', 'PIP_CERT', 'CURL_CA_BUNDLE', 'GIT_SSL_CAINFO'])
    expect(variables[name]).toBe('/dev/shm/berth-network/ca.pem');
});
