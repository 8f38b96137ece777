/** The log of the program: JSON lines, or lines for a person who reads them on a terminal. */
import { pino, stdTimeFunctions, type Logger } from 'pino';
import type { Config } from './config.ts';

export async function makeLog({ logLevel, logFormat }: Pick<Config, 'logLevel' | 'logFormat'>): Promise<Logger> {
  const isTerminal = process.stdout.isTTY;
  if (logFormat === 'json' || (logFormat === 'auto' && !isTerminal)) {
    const formatters = { level: (label: string) => ({ level: label }) };
    return pino({ level: logLevel, base: null, timestamp: stdTimeFunctions.isoTime, formatters });
  }
  const { default: pretty } = await import('pino-pretty');
  const stream = pretty({ colorize: isTerminal, translateTime: 'SYS:HH:MM:ss', ignore: 'config', singleLine: true });
  return pino({ level: logLevel, base: null }, stream);
}
