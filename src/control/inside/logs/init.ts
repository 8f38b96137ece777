import type { InstanceId } from '../../../domain/ids.ts';
import type { Engine, LogLine } from '../../../engines/contract.ts';
import { lastLines, type LogReader, type PositionedLine, type LogStart } from './log-reader.ts';

export function initLogOf(engine: Pick<Engine, 'logs' | 'followLogs'>, id: InstanceId): LogReader {
  const now = async (signal: AbortSignal): Promise<AsyncIterable<PositionedLine>> =>
    numbered(await engine.logs(id, 'init', {}, signal));

  return {
    async *read(from, _untilMs, signal) {
      if ('tail' in from) yield* await lastLines(await now(signal), from.tail);
      else yield* behind(await now(signal), skippedBy(from));
    },
    async *follow(from, signal) {
      yield* behind(numbered(await engine.followLogs(id, 'init', {}, signal)), skippedBy(from));
    },
  };
}

const skippedBy = (from: LogStart): number => ('after' in from ? Number(from.after) : 0);

async function* numbered(lines: AsyncIterable<LogLine>): AsyncGenerator<PositionedLine> {
  let number = 0;
  for await (const line of lines) {
    number += 1;
    yield { line, position: String(number), gap: false };
  }
}

async function* behind(lines: AsyncIterable<PositionedLine>, skipped: number): AsyncGenerator<PositionedLine> {
  let number = 0;
  for await (const line of lines) {
    number += 1;
    if (number > skipped) yield line;
  }
}
