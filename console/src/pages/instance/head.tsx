/** Name, state in a sentence, and what can be done with the instance. */
import { Badge, Button, Group, Text, Title } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useFormat } from '../../app/format.ts';
import { useNow } from '../../app/now.ts';
import { AnchorLink } from '../../parts/links.tsx';
import { StatusMark } from '../../parts/status-mark.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf, nameOf } from '../instances/allowed-acts.ts';
import { hourlyOf } from './cost.ts';
import { HeadActs } from './head-acts.tsx';
import { comingStopOf, headlineOf, wholeOf, type ComingStop } from './headline.ts';
import classes from './instance.module.css';
import { useKeep } from './keep.ts';
import { useOpenWhenReady } from './open-when-ready.ts';
import { activityQuery, costQuery, endsQuery, type InstanceView } from './queries.ts';

interface HeadProps {
  view: InstanceView;
  /** The notebook opens when it is ready. */
  isAsked: boolean;
  onOpened: () => void;
}

export function Head({ view, isAsked, onOpened }: HeadProps) {
  const { instance: texts } = useTexts();
  const { instance } = view;
  const instanceId = idOf(instance);
  const isRunning = instance.instanceRuntimeInfo.status === 'Running';
  const ends = useQuery({ ...endsQuery(instanceId), enabled: isRunning }).data;
  const activity = useQuery({ ...activityQuery(instanceId), enabled: isRunning }).data;
  const stop = isRunning ? comingStopOf(ends, activity, view.billing) : null;
  useOpenWhenReady(instance, isAsked, onOpened);
  return (
    <header className={classes.head}>
      <div className={classes.headWords}>
        <Group gap="xs" mb={4}>
          <AnchorLink to="/instances" size="sm" c="dimmed">
            {texts.toList}
          </AnchorLink>
          <StatusMark instance={instance} />
        </Group>
        <Group gap="xs">
          <Title order={1}>{nameOf(instance)}</Title>
          {Object.entries(instance.labels ?? {}).map(([key, value]) => (
            <Badge key={key} size="sm" variant="default" tt="none">
              {key}={value}
            </Badge>
          ))}
        </Group>
        <Group gap="xs" mt={4}>
          <Sentence view={view} stop={stop} />
          {stop !== null && <KeepButton instanceId={instanceId} stop={stop} />}
        </Group>
      </div>
      <HeadActs view={view} />
    </header>
  );
}

function Sentence({ view, stop }: { view: InstanceView; stop: ComingStop | null }) {
  const { instance: texts } = useTexts();
  const { duration, moment, money, ago } = useFormat();
  const nowMs = useNow();
  const cost = useQuery(costQuery(idOf(view.instance))).data;
  const headline = headlineOf(view, stop);
  const sentences: string[] = [];
  const since = (sinceMs: number): string => duration(wholeOf(nowMs - sinceMs));
  switch (headline.kind) {
    case 'running':
      sentences.push(headline.sinceMs === null ? texts.says.running : texts.says.runningFor(since(headline.sinceMs)));
      if (headline.stop) sentences.push(texts.says.stops[headline.stop.cause](moment(headline.stop.atMs)));
      break;
    case 'starting':
      sentences.push(texts.says.starting(since(headline.sinceMs)), texts.says.nothingCharged);
      break;
    case 'waiting':
      sentences.push(texts.says.waiting(since(headline.sinceMs)));
      if (headline.ahead !== null) sentences.push(texts.says.ahead(headline.ahead));
      sentences.push(texts.says.nothingCharged);
      break;
    case 'offPeakWait':
      sentences.push(texts.says.offPeakWait(since(headline.sinceMs)), texts.says.nothingCharged);
      break;
    case 'stopped':
      sentences.push(headline.atMs === null ? texts.says.stopped : texts.says.stoppedAgo(ago(headline.atMs, nowMs)));
      break;
    case 'failed':
      sentences.push(headline.atMs === null ? texts.says.failed : texts.says.failedAgo(ago(headline.atMs, nowMs)));
      break;
    default:
      sentences.push(texts.says[headline.kind]);
  }
  if (cost !== undefined && cost.total > 0) sentences.push(texts.says.cost(money(cost.total)));
  const rests = headline.kind === 'stopped' || headline.kind === 'archived';
  const hourly = cost === undefined ? 0 : hourlyOf(cost.periods);
  if (rests && hourly > 0) sentences.push(texts.says.keptDisks(money(hourly)));
  return (
    <Text size="md" role="status" aria-live="off">
      {sentences.join(texts.says.join)}
    </Text>
  );
}

function KeepButton({ instanceId, stop }: { instanceId: string; stop: ComingStop }) {
  const { instance: texts } = useTexts();
  const keep = useKeep(instanceId);
  if (stop.cause === 'longestRun' || stop.cause === 'paidTime')
    return (
      <AnchorLink to="/instances/$instanceId" params={{ instanceId }} search={{ tab: 'settings' }} size="sm">
        {texts.changeIt}
      </AnchorLink>
    );
  return (
    <Button variant="light" loading={keep.isPending} onClick={() => keep.mutate(stop.cause)}>
      {stop.cause === 'idle' ? texts.keepForHour : texts.keepRunning}
    </Button>
  );
}
