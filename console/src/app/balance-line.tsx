/** Balance and burn rate in the top bar. */
import { Group, Text, Tooltip, VisuallyHidden } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { forecastQuery } from './queries.ts';
import { useFormat } from './format.ts';
import { useTexts } from '../texts/provider.tsx';
import classes from './shell.module.css';

export function BalanceLine() {
  const { shell } = useTexts();
  const { money, lasting } = useFormat();
  const { data } = useQuery(forecastQuery);
  if (data === undefined) return null;
  const { available, burnRate, lastsUntilUnixMs, step } = data;
  const label = shell.balance(money(available), money(burnRate), lasting(lastsUntilUnixMs));
  return (
    <Tooltip label={label}>
      <Link to="/billing" className={classes.brand}>
        <VisuallyHidden>{label}</VisuallyHidden>
        <Group gap={6} wrap="nowrap" aria-hidden>
          <Text span size="sm" fw={600} c={step === 'none' ? undefined : 'red'}>
            {money(available)}
          </Text>
          <Text span size="sm" c="dimmed" visibleFrom="xs">
            {shell.burn(money(burnRate))}
          </Text>
        </Group>
      </Link>
    </Tooltip>
  );
}
