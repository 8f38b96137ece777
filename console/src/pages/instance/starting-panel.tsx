/** The page of an instance until it runs: what has happened, what happens now, and what comes. */
import { Checkbox, Paper, Stack, Text, Title } from '@mantine/core';
import { useTexts } from '../../texts/provider.tsx';
import { FactsCard } from './facts-card.tsx';
import { isFailed } from './headline.ts';
import classes from './instance.module.css';
import { useOpensByItself } from './open-when-ready.ts';
import type { InstanceView, Stage } from './queries.ts';
import type { InstanceViewSearch } from './search.ts';
import { Timeline } from './timeline.tsx';

const launchStages: readonly Stage['name'][] = ['Queued', 'Placed', 'Image', 'Disks', 'Container', 'Readiness'];

interface StartingPanelProps {
  view: InstanceView;
  willOpen: boolean;
  change: (over: InstanceViewSearch) => void;
}

export function StartingPanel({ view, willOpen, change }: StartingPanelProps) {
  const { instance: texts } = useTexts();
  const [opensByItself, setOpensByItself] = useOpensByItself();
  const hasFailed = isFailed(view);
  const { timeline } = view;
  const current = launchStages.findIndex((name) => name === timeline.at(-1)?.name);
  const coming = hasFailed || current === -1 ? [] : launchStages.slice(current + 1);
  return (
    <div className={classes.cards}>
      <Paper withBorder p="md">
        <Title order={2} mb="xs">
          {hasFailed ? texts.howItFailed : texts.timeline}
        </Title>
        <Timeline stages={timeline} hasFailed={hasFailed} coming={coming} />
        {!hasFailed && (
          <Stack gap={4} mt="sm">
            <Checkbox
              size="sm"
              label={texts.openByItself}
              checked={willOpen && opensByItself}
              onChange={({ currentTarget: { checked } }) => {
                setOpensByItself(checked);
                change({ open: checked });
              }}
            />
            <Text size="xs" c="dimmed">
              {texts.startsWithoutYou}
            </Text>
          </Stack>
        )}
      </Paper>
      <FactsCard view={view} />
    </div>
  );
}
