/** Init script and start command in real containers: their order, logs, and failed commands. */
import { randomUUID } from 'node:crypto';
import { describe, expect, it, onTestFinished } from 'vitest';
import { sampled } from '../../fixtures/level.ts';
import { importBusybox } from './docker-fixture.ts';
import { docker, eventually, lab, start } from './start-script-fixture.ts';

describe('the start command', () => {
  it('runs at every start, after the first run of the init script, with a log of each run', async () => {
    const instance = await start({
      initScript: 'sleep 1; echo init >>/root/order',
      startCommand: 'echo start $ODD >>/root/order; pwd; echo to stderr >&2; exit 6',
      variables: new Map([['ODD', "it's"]]),
    });
    const last = async (): Promise<string | undefined> => (await instance.said()).at(-1);
    await eventually(async () => expect(await last()).toBe('berth: start exit 6 last output: to stderr'));
    expect((await instance.said()).slice(-4)).toEqual([
      'berth: init started',
      'berth: init exit 0',
      'berth: start started',
      'berth: start exit 6 last output: to stderr',
    ]);
    await instance.container.restart();
    await eventually(async () => expect(await instance.ssh('cat order')).toBe("init\nstart it's\nstart it's\n"));
    await eventually(async () =>
      expect(await instance.ssh('cd /var/log/berth; cat start.exit start.failed')).toBe('6\nlast output: to stderr\n'),
    );
    expect(await instance.ssh('cat /var/log/berth/start.log')).toBe('/root\nto stderr\n');
  });

  it('may run on, and leave programs behind that write on', async () => {
    const instance = await start({
      initScript: 'while :; do echo on; sleep 0.1; done & exit 0',
      startCommand: 'echo up; exec sleep 600',
    });
    await eventually(async () => expect((await instance.said()).at(-1)).toBe('berth: start started'));
    await eventually(async () => expect(await instance.ssh('cat /var/log/berth/start.log')).toBe('up\n'));
    const lines = async (): Promise<number> => Number(await instance.ssh('wc -l </var/log/berth/init.log'));
    const before = await lines();
    await eventually(async () => expect(await lines()).toBeGreaterThan(before));
  });
});

describe('a failed command of a script', () => {
  const failing = 'echo fine\ncd /nowhere || true\nls \\\n  /missing\necho on\n';
  const cases: [string, string, string | RegExp][] = [
    ['bash, to its end', failing, /^0 line 4 ended with code 2: ls \/missing: ls: cannot access '\/missing': No such/],
    [
      'bash with set -e',
      `#!/bin/bash\nset -euo pipefail\n${failing}`,
      /^2 line 6 ended with code 2: ls \/missing: ls: /,
    ],
    [
      'bash with set -x',
      'set -x\nls /missing\n',
      /^2 line 2 ended with code 2: ls \/missing: ls: cannot access '\/missing'/,
    ],
    ['env bash -e', `#!/usr/bin/env -S bash -e\nfalse\n`, '1 line 2 ended with code 1: false'],
    ['a function', 'f() {\n  return 4\n}\nf\nexit 3', '3 line 4 ended with code 4: return 4'],
    ['a sourced file', 'echo false >/tmp/more\n. /tmp/more\ntrue', /^0 line 2 ended with code 1: \. \/tmp\/more$/],
    ['output elsewhere', 'exec >/root/mine 2>&1\necho lost\nfalse', '1 line 3 ended with code 1: false'],
    ['none', 'if false; then :; fi\nfalse || true\n! true', '1'],
    ['a syntax error', 'echo a\nif\n', /^2 .*start-command: line 3: syntax error: unexpected end of file/],
    [
      'dash, which does not know its lines',
      '#!/bin/sh\necho out\nls /missing\n',
      /^2 last output: ls: cannot access '\/missing'/,
    ],
    ['Python', '#!/usr/bin/env python3\nraise ValueError("bad")\n', '1 last output: ValueError: bad'],
    ['colors', 'printf "\\033[31mred\\033[0m\\n"; exit 2', /^2 .*red/],
  ];
  it.each(sampled(cases, { oneIn: 5 }))('is named with its line and output: %s', async (_, startCommand, expected) => {
    const instance = await start({ startCommand });
    await eventually(async () =>
      expect((await instance.said()).at(-1)?.replace(/^berth: start exit /, '')).toMatch(
        typeof expected === 'string' ? new RegExp(`^${expected.replaceAll('.', '\\.')}$`) : expected,
      ),
    );
  });

  it('has its line in an image with busybox alone', async () => {
    const tag = `berth.local/start-test:${randomUUID()}`;
    await importBusybox(docker, tag, lab);
    onTestFinished(() => docker.getImage(tag).remove({ force: true }));
    const instance = await start({ startCommand: 'echo out\nls /missing\nfalse\n', image: tag });
    await eventually(async () =>
      expect((await instance.said()).at(-1)).toMatch(/^berth: start exit 1 line 3 ended with code 1/),
    );
  });
});
