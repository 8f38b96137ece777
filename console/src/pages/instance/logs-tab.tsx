/** Logs of an instance, followed live, with a search, a pause and a download. */
import { Button, Group, SegmentedControl, Text, ThemeIcon } from '@mantine/core';
import { IconDownload, IconPlayerPause, IconPlayerPlay } from '@tabler/icons-react';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useEffect, useMemo, useRef, useState } from 'react';
import { api } from '../../app/api.ts';
import { useFormat } from '../../app/format.ts';
import { FilterInput } from '../../parts/filter-input.tsx';
import { Trouble } from '../../parts/trouble.tsx';
import { useFailureNotice } from '../../parts/use-failure-notice.ts';
import { useTexts } from '../../texts/provider.tsx';
import { idOf, nameOf } from '../instances/allowed-acts.ts';
import { useLog } from './follow-log.ts';
import type { TabProps } from './tab-props.ts';
import classes from './instance.module.css';
import { matching, partsOf, type ShownLine } from './log-lines.ts';
import { shownLogs } from './search.ts';

const LINE_PX = 18;
const OVERSCAN = 20;
/** So near to the end counts as at the end. */
const NEAR_PX = 40;

export function LogsTab({ view, search, change }: TabProps) {
  const { logs } = useTexts().instance;
  const fail = useFailureNotice();
  const { instance } = view;
  const source = search.log ?? 'console';
  const find = search.find ?? '';
  const instanceId = idOf(instance);
  const run = `${instance.instanceRuntimeInfo.status === 'Running'} ${view.operationId}`;
  const { lines, isFollowing, error } = useLog(instanceId, source, run);
  const [paused, setPaused] = useState<readonly ShownLine[] | null>(null);
  const shown = useMemo(() => matching(paused ?? lines, find), [paused, lines, find]);
  const waiting = paused === null ? 0 : Math.max(0, (lines.at(-1)?.key ?? -1) - (paused.at(-1)?.key ?? -1));
  const download = async (): Promise<void> => {
    try {
      const response = await api.downloadLog(instanceId, { source });
      saveAs(await response.blob(), `${nameOf(instance)}-${source}.log`);
    } catch (failure) {
      fail(failure);
    }
  };
  return (
    <>
      <Group gap="xs" mb="xs">
        <SegmentedControl
          size="xs"
          aria-label={logs.which}
          value={source}
          onChange={(value) => {
            setPaused(null);
            change({ log: shownLogs.find((one) => one === value) ?? 'console' });
          }}
          data={shownLogs.map((value) => ({ value, label: logs.sources[value] }))}
        />
        <FilterInput value={find} label={logs.find} onChange={(text) => change({ find: text })} />
        <Button
          variant="default"
          leftSection={paused === null ? <IconPlayerPause size={13} /> : <IconPlayerPlay size={13} />}
          onClick={() => setPaused(paused === null ? lines : null)}
        >
          {paused === null ? logs.pause : logs.resume(waiting)}
        </Button>
        <Button variant="default" leftSection={<IconDownload size={13} />} onClick={() => void download()}>
          {logs.download}
        </Button>
      </Group>
      {error !== null && lines.length === 0 ? (
        <Trouble error={error} />
      ) : (
        <Lines key={source} lines={shown} find={find} isPaused={paused !== null} label={logs.sources[source]} />
      )}
      <Group gap={6} mt={4} role="status">
        {isFollowing && paused === null && <ThemeIcon size={8} radius="xl" color="teal" className="breathing" />}
        <Text size="xs" c="dimmed">
          {find === '' ? logs.count(shown.length) : logs.found(shown.length)} ·{' '}
          {paused !== null ? logs.paused : isFollowing ? logs.following : logs.over}
        </Text>
      </Group>
    </>
  );
}

interface LinesProps {
  lines: readonly ShownLine[];
  find: string;
  isPaused: boolean;
  label: string;
}

function Lines({ lines, find, isPaused, label }: LinesProps) {
  const { logs } = useTexts().instance;
  const { clock } = useFormat();
  const box = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  const virtualizer = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_PX,
    overscan: OVERSCAN,
  });
  useEffect(() => {
    if (isAtEnd.current && !isPaused && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, isPaused]);
  const onScroll = (): void => {
    const { scrollTop = 0, scrollHeight = 0, clientHeight = 0 } = box.current ?? {};
    isAtEnd.current = scrollTop + clientHeight > scrollHeight - NEAR_PX;
  };
  return (
    <div ref={box} className={classes.log} onScroll={onScroll} role="log" aria-label={label} tabIndex={0}>
      {lines.length === 0 && (
        <Text size="sm" c="dimmed" px="sm" py="xs">
          {find === '' ? logs.empty : logs.noHit}
        </Text>
      )}
      <div className={classes.lines} style={{ height: virtualizer.getTotalSize() }}>
        {virtualizer.getVirtualItems().map(({ index, start }) => {
          const line = lines[index];
          if (line === undefined) return null;
          return (
            <div key={line.key} className={classes.line} style={{ transform: `translateY(${start}px)` }}>
              {line.atUnixMs !== null && <span className={classes.lineTime}>{clock(line.atUnixMs)}</span>}
              {line.isNote ? <em>{line.text}</em> : <Marked text={line.text} find={find} />}
            </div>
          );
        })}
      </div>
    </div>
  );
}

const Marked = ({ text, find }: { text: string; find: string }) =>
  partsOf(text, find).map((part, at) => (at % 2 === 1 ? <mark key={at}>{part}</mark> : part));

function saveAs(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}
