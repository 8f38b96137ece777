/** The program: reads the environment, starts, prints the addresses, and stops on a signal. */
import { errorCode, errorText, reasonText } from '../domain/kernel/unknown-error.ts';
import { hostPort, masked, readConfig, VERSION } from './config.ts';
import { makeLog } from './program-log.ts';

const fail = (text: string): never => {
  process.stderr.write(`${text}\n`);
  process.exit(1);
};

const config = (() => {
  try {
    return readConfig(process.env);
  } catch (error) {
    return fail(errorText(error));
  }
})();
const log = await makeLog(config);
log.info({ config: masked(config) }, `Berth ${VERSION} starts`);

const PROBE_MS = 5_000;

async function start(): Promise<{ greeting: string; stop: () => Promise<void> }> {
  if (config.role === 'gateway') {
    const { startGateway } = await import('./start-gateway.ts');
    const gateway = await startGateway({ config, log });
    return { greeting: `\n  The gateway is ready at ${gateway.gatewayUrl}\n\n`, stop: () => gateway.stop() };
  }
  const { startServer } = await import('./server.ts');
  const { welcome } = await import('./welcome.ts');
  const onDatabaseLost = (): never => fail('Another Berth now holds the lock of the database; this process exits.');
  const server = await startServer({ config, log, onDatabaseLost });
  const { engine } = server.drivers.drivers;
  const engineTrouble = await engine.probe(AbortSignal.timeout(PROBE_MS)).then(() => null, reasonText);
  const { dataFolder } = config;
  const greeting = welcome(server, { isTerminal: process.stdout.isTTY, dataFolder, engineTrouble });
  return { greeting, stop: () => server.stop() };
}

/** npm forwards a signal that the terminal already sent to the whole group: ignore the echo. */
const ECHO_MS = 1_000;
let endingSinceMs = 0;
let stop: (() => Promise<void>) | null = null;
// Before the start: the first process of a container ignores signals that it does not handle.
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.on(signal, () => {
    if (endingSinceMs > 0 && performance.now() - endingSinceMs > ECHO_MS) process.exit(1);
    if (endingSinceMs > 0) return;
    endingSinceMs = performance.now();
    if (stop === null) {
      log.info({ signal }, 'stopped while starting');
      process.exit(0);
    }
    log.info({ signal }, 'stopping; a second signal exits at once');
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error({ err: error }, 'could not stop cleanly');
        process.exit(1);
      },
    );
  });
}

const started = await start().catch((error: unknown) => {
  if (errorCode(error) === 'EADDRINUSE') {
    return fail(
      `${hostPort(config.listen)} or ${hostPort(config.gatewayListen)} is in use by another program; set other addresses in BERTH_LISTEN and BERTH_GATEWAY_LISTEN.`,
    );
  }
  log.debug({ err: error }, 'Berth could not start');
  return fail(`Berth could not start. ${errorText(error)}`);
});
stop = started.stop;
process.stdout.write(started.greeting);
