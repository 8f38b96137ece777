/** The program: reads the environment, starts, says where it is and what to do first, and ends by a signal. */
import { enableCompileCache } from 'node:module';

// Before anything large is loaded: the second start then takes the compiled modules from the cache.
enableCompileCache();

const { pino } = await import('pino');
const { hostPort, masked, readConfig } = await import('./config.ts');
const { VERSION } = await import('./version.ts');

const fail = (text: string): never => {
  process.stderr.write(`${text}\n`);
  process.exit(1);
};

const config = (() => {
  try {
    return readConfig(process.env);
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
})();
const log = pino({ level: config.logLevel, base: null });
log.info(masked(config), `Berth ${VERSION} starts`);

/** Starts what this process is, and says how it greets. */
async function start(): Promise<{ greeting: string; stop: () => Promise<void> }> {
  if (config.role === 'gateway') {
    const { startGateway } = await import('./gateway.ts');
    const gateway = await startGateway({ config, log });
    return { greeting: `\n  The gateway serves at ${gateway.gatewayUrl}\n\n`, stop: () => gateway.stop() };
  }
  const { startServer } = await import('./server.ts');
  const { welcome } = await import('./welcome.ts');
  const onDatabaseLost = (): never => fail('Another Berth has taken the database; this one ends.');
  const server = await startServer({ config, log, onDatabaseLost });
  return { greeting: welcome(server), stop: () => server.stop() };
}

const { greeting, stop } = await start().catch((error: unknown) => {
  if (error instanceof Error && 'code' in error && error.code === 'EADDRINUSE') {
    return fail(
      `${hostPort(config.listen)} or ${hostPort(config.gatewayListen)} is taken by another program; set BERTH_LISTEN and BERTH_GATEWAY_LISTEN.`,
    );
  }
  log.debug({ err: error }, 'Berth could not start');
  return fail(`Berth could not start. ${error instanceof Error ? error.message : String(error)}`);
});
process.stdout.write(greeting);

/** npm passes a signal on that the terminal has sent to all of the group already: the second of two so close is an echo. */
const ECHO_MS = 1_000;
let endingSinceMs = 0;
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.on(signal, () => {
    if (endingSinceMs > 0 && Date.now() - endingSinceMs > ECHO_MS) process.exit(1);
    if (endingSinceMs > 0) return;
    endingSinceMs = Date.now();
    log.info({ signal }, 'draining; the same signal again ends at once');
    stop().then(
      () => process.exit(0),
      (error: unknown) => {
        log.error({ err: error }, 'could not end cleanly');
        process.exit(1);
      },
    );
  });
}
