/** Facts, ways in, disks, cost and use of an instance at a glance. */
import { Paper, Title } from '@mantine/core';
import { useTexts } from '../../texts/provider.tsx';
import { AccessCard } from './access-card.tsx';
import { CostCard } from './cost-card.tsx';
import { DiskBars } from './disk-bars.tsx';
import { FactsCard } from './facts-card.tsx';
import { isReleased } from './headline.ts';
import { IdleCard } from './idle-card.tsx';
import classes from './instance.module.css';
import type { InstanceView } from './queries.ts';

export function OverviewTab({ view }: { view: InstanceView }) {
  const { instance } = useTexts();
  if (isReleased(view))
    return (
      <div className={classes.cards}>
        <CostCard view={view} />
        <FactsCard view={view} />
      </div>
    );
  return (
    <div className={classes.cards}>
      <AccessCard view={view} />
      <CostCard view={view} />
      <Paper withBorder p="md">
        <Title order={2} mb="xs">
          {instance.disks.title}
        </Title>
        <DiskBars view={view} />
      </Paper>
      <IdleCard view={view} />
      <FactsCard view={view} />
    </div>
  );
}
