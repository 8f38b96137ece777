/** What is wrong, as sentences with a button each, the worst first. All well is one quiet line. */
import { Group, Stack, Text, Title } from '@mantine/core';
import { IconAlertTriangle, IconCircleCheck, IconCircleX, IconInfoCircle, type Icon } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { api } from '../../../app/api.ts';
import { base } from '../../../app/base.ts';
import { useFormat } from '../../../app/format.ts';
import { useSession } from '../../../app/session.ts';
import { ButtonLink } from '../../../parts/links.tsx';
import { Loading } from '../../../parts/loading.tsx';
import { Trouble } from '../../../parts/trouble.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { useFresh } from '../fresh.ts';
import { findingsOf, type Finding, type HealthFacts, type Severity } from './findings.ts';
import { DueActs } from './due-acts.tsx';
import { ProxyCheck } from './proxy-check.tsx';
import { Tasks } from './tasks.tsx';

/** Each round is five records of the audit log. */
const FRESH_MS = 120_000;
const PAGE = { currentPage: 1, pageSize: 200 };

/** The probe that load balancers ask; it answers without a login. */
async function readiness(): Promise<HealthFacts['ready']> {
  try {
    const response = await fetch(`${base}/readyz`);
    const { status, text, message = '' }: { status?: string; text?: string; message?: string } = await response.json();
    if (!response.ok) return { state: 'notReady', text: message };
    return { state: status === 'ok' ? 'ok' : 'degraded', text: text ?? '' };
  } catch (error) {
    return { state: 'notReady', text: error instanceof Error ? error.message : String(error) };
  }
}

async function askAll(isAdmin: boolean): Promise<HealthFacts> {
  const [ready, { regions }, { tasks, due }, { disks }, { strays }, { webhooks }, { changes }, deleting] =
    await Promise.all([
      readiness(),
      api.fleet(),
      api.listTasks(),
      api.listHeldDisks(),
      api.listStrays(),
      api.listWebhooks(),
      api.listPriceChanges({ pager: PAGE }),
      isAdmin ? api.listAccounts({ pager: PAGE, state: 'deleting' }).then(({ accounts }) => accounts) : [],
    ]);
  return {
    ready,
    regions,
    tasks,
    due,
    heldDisks: disks,
    orphans: strays,
    webhooks,
    priceChanges: changes,
    deleting,
    nowMs: Date.now(),
  };
}

export function HealthPage() {
  const { health } = useTexts();
  const { isAdmin } = useSession();
  useFresh('health');
  const facts = useQuery({
    queryKey: ['health', isAdmin],
    queryFn: () => askAll(isAdmin),
    refetchInterval: FRESH_MS,
  });
  if (facts.isError)
    return (
      <>
        <Title order={1} mb="sm">
          {health.title}
        </Title>
        <Trouble error={facts.error} onRetry={() => void facts.refetch()} />
      </>
    );
  if (facts.data === undefined) return <Loading h={240} label={health.title} />;
  const findings = findingsOf(facts.data);
  const isWell = findings.every(({ severity }) => severity === 'tells');
  return (
    <>
      <Title order={1} mb="sm">
        {health.title}
      </Title>
      {isWell && (
        <Group gap="xs" mb="sm" wrap="nowrap" role="status" align="flex-start">
          <IconCircleCheck size={18} aria-hidden color="var(--mantine-color-teal-7)" />
          <Text size="sm">
            {health.well(facts.data.ready.text, facts.data.regions.length, facts.data.tasks.length)}
          </Text>
        </Group>
      )}
      <Stack gap={0} component="ul" m={0} p={0}>
        {findings.map((finding) => (
          <FindingLine key={finding.key} finding={finding} />
        ))}
      </Stack>
      <ProxyCheck />
      <Tasks tasks={facts.data.tasks} />
      <DueActs due={facts.data.due} />
    </>
  );
}

const marks: Readonly<Record<Severity, { icon: Icon; color: string }>> = {
  bad: { icon: IconCircleX, color: 'red' },
  warns: { icon: IconAlertTriangle, color: 'orange' },
  tells: { icon: IconInfoCircle, color: 'blue' },
};

function FindingLine({ finding }: { finding: Finding }) {
  const { health } = useTexts();
  const { icon: Icon, color } = marks[finding.severity];
  const say = useSentence();
  return (
    <Group component="li" gap="sm" py="xs" wrap="nowrap" align="flex-start" className="row-line">
      <Icon
        size={18}
        role="img"
        aria-label={health.severities[finding.severity]}
        color={`var(--mantine-color-${color}-7)`}
      />
      <Text size="sm" flex={1} miw={0} className="breaks">
        {say(finding)}
      </Text>
      <Step finding={finding} />
    </Group>
  );
}

function useSentence(): (finding: Finding) => string {
  const { health, common } = useTexts();
  const { moment, dateTime, percent } = useFormat();
  const { sentences } = health;
  return (finding) => {
    switch (finding.kind) {
      case 'notReady':
      case 'degraded':
        return sentences[finding.kind](finding.text);
      case 'engineSilent':
        return sentences.engineSilent(finding.region, finding.text);
      case 'taskFails':
        return sentences.taskFails(finding.task, finding.error, finding.failures);
      case 'taskLate':
        return sentences.taskLate(finding.task, dateTime(finding.sinceMs));
      case 'poolFull':
        return sentences.poolFull(finding.pool, finding.region, percent(finding.share));
      case 'fileSystemFull':
        return sentences.fileSystemFull(finding.pool, finding.region, common.gb(finding.freeGB));
      case 'diskHeld':
        return sentences.diskHeld(finding.disk, moment(finding.sinceMs), finding.processes);
      case 'webhookOff':
        return sentences.webhookOff(finding.url, finding.error);
      case 'webhookFails':
        return sentences.webhookFails(finding.url, finding.error, finding.attempts);
      case 'drained':
        return sentences.drained(
          finding.region,
          finding.reason,
          finding.stopsAtMs === null ? null : dateTime(finding.stopsAtMs),
        );
      case 'waiting':
        return sentences.waiting(finding.region, finding.count);
      case 'orphans':
        return sentences.orphans(finding.count, finding.running);
      case 'priceDue':
        return sentences.priceDue(finding.count, dateTime(finding.atMs));
      case 'accountEnds':
        return sentences.accountEnds(finding.username, dateTime(finding.atMs));
    }
  };
}

/** The place where something can be done about it. */
function Step({ finding }: { finding: Finding }) {
  const { health } = useTexts();
  const { steps } = health;
  switch (finding.kind) {
    case 'engineSilent':
      return (
        <ButtonLink variant="default" to="/operator/catalog" search={{ tab: 'regions' }}>
          {steps.region}
        </ButtonLink>
      );
    case 'poolFull':
    case 'fileSystemFull':
      return (
        <ButtonLink variant="default" to="/operator/fleet" search={{ tab: 'disks' }}>
          {steps.disks}
        </ButtonLink>
      );
    case 'webhookOff':
    case 'webhookFails':
      return (
        <ButtonLink variant="default" to="/access">
          {steps.webhooks}
        </ButtonLink>
      );
    case 'drained':
    case 'waiting':
      return (
        <ButtonLink variant="default" to="/operator/fleet">
          {steps.fleet}
        </ButtonLink>
      );
    case 'orphans':
      return (
        <ButtonLink variant="default" to="/operator/orphans">
          {steps.orphans}
        </ButtonLink>
      );
    case 'priceDue':
      return (
        <ButtonLink variant="default" to="/operator/catalog" search={{ tab: 'prices' }}>
          {steps.prices}
        </ButtonLink>
      );
    case 'accountEnds':
      return (
        <ButtonLink variant="default" to="/operator/accounts/$accountId" params={{ accountId: finding.accountId }}>
          {steps.account}
        </ButtonLink>
      );
    case 'notReady':
    case 'degraded':
    case 'taskFails':
    case 'taskLate':
    case 'diskHeld':
      return (
        <ButtonLink variant="default" to="/operator/health" hash="tasks">
          {steps.tasks}
        </ButtonLink>
      );
  }
}
