/** Disks, mounts, and the root disk as an image. */
import { Paper, Title } from '@mantine/core';
import { useTexts } from '../../texts/provider.tsx';
import { DiskBars } from './disk-bars.tsx';
import { ExpandForm } from './expand-form.tsx';
import type { TabProps } from './tab-props.ts';
import classes from './instance.module.css';
import { MountsForm } from './mounts-form.tsx';
import { SaveImage } from './save-image.tsx';

export function StorageTab({ view }: TabProps) {
  const { disks } = useTexts().instance;
  return (
    <div className={classes.cards}>
      <Paper withBorder p="md">
        <Title order={2} mb="xs">
          {disks.title}
        </Title>
        <DiskBars view={view} />
      </Paper>
      <MountsForm view={view} />
      <ExpandForm view={view} />
      <SaveImage view={view} />
    </div>
  );
}
