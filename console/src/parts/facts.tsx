/** Names and values, one below the other. */
import { Text } from '@mantine/core';
import { Fragment, type ReactNode } from 'react';
import classes from './facts.module.css';

export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ReactNode])[] }) {
  return (
    <dl className={classes.facts}>
      {facts.map(([name, value]) => (
        <Fragment key={name}>
          <Text component="dt" size="sm" c="dimmed">
            {name}
          </Text>
          <Text component="dd" size="sm" className={classes.value}>
            {value}
          </Text>
        </Fragment>
      ))}
    </dl>
  );
}
