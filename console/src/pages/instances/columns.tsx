import { Link } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { BadgeLink } from '../../parts/links.tsx';
import type { Column } from '../../parts/paged-table.tsx';
import { RelativeTime } from '../../parts/relative-time.tsx';
import { StatusMark } from '../../parts/status-mark.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { idOf, nameOf } from './allowed-acts.ts';
import classes from './instances.module.css';
import { CostToday, Load } from './figures.tsx';
import type { InstanceSortName } from './search.ts';
import { RowActs } from './row-acts.tsx';

const SHOWN_LABELS = 3;
const SSH = 22;

export function InstanceName({ instance }: { instance: InstanceObject }) {
  const labels = Object.entries(instance.labels ?? {}).slice(0, SHOWN_LABELS);
  return (
    <span className={classes.line}>
      <Link to="/instances/$instanceId" params={{ instanceId: idOf(instance) }} className={classes.name}>
        {nameOf(instance)}
      </Link>
      {labels.map(([key, value]) => (
        <BadgeLink
          key={key}
          to="/instances"
          search={{ label: `${key}=${value}` }}
          size="xs"
          variant="default"
          tt="none"
          className={classes.label}
        >
          {key}={value}
        </BadgeLink>
      ))}
    </span>
  );
}

export function TypeName({ instance }: { instance: InstanceObject }) {
  const { instances } = useTexts();
  const { instanceTypeInfo, isSpotInstance } = instance.instanceSpecInfo;
  return (
    <span className={classes.text}>
      {instanceTypeInfo.instanceTypeName}
      {isSpotInstance && ` · ${instances.spot}`}
      {instance.withoutGpu && ` · ${instances.withoutGpu}`}
    </span>
  );
}

const ports = (instance: InstanceObject): number[] =>
  instance.instanceSpecInfo.nodePorts.map(({ port }) => port).filter((port) => port !== SSH);

export const useInstanceColumns = (): Column<InstanceObject, InstanceSortName>[] => {
  const { columns } = useTexts().instances;
  return useMemo(
    () => [
      {
        key: 'status',
        title: columns.status,
        sort: 'status',
        width: '130px',
        cell: (row) => <StatusMark instance={row} />,
      },
      {
        key: 'name',
        title: columns.name,
        sort: 'name',
        width: 'minmax(140px, 2fr)',
        cell: (row) => <InstanceName instance={row} />,
      },
      { key: 'type', title: columns.type, width: 'minmax(90px, 1fr)', cell: (row) => <TypeName instance={row} /> },
      {
        key: 'since',
        title: columns.since,
        sort: 'createdAt',
        width: '110px',
        cell: ({ instanceRuntimeInfo }) => <RelativeTime atMs={instanceRuntimeInfo.createAtUnixMs} />,
      },
      {
        key: 'cost',
        title: columns.cost,
        width: '90px',
        align: 'right',
        cell: (row) => <CostToday instanceId={idOf(row)} />,
      },
      { key: 'load', title: columns.load, width: '104px', cell: (row) => <Load instance={row} /> },
      {
        key: 'ports',
        title: columns.ports,
        width: 'minmax(100px, 0.7fr)',
        cell: (row) => (
          <span className={classes.line}>
            {ports(row).map((port) => (
              <span key={port} className={classes.port}>
                {port}
              </span>
            ))}
          </span>
        ),
      },
      { key: 'act', title: columns.act, width: '170px', align: 'right', cell: (row) => <RowActs instance={row} /> },
    ],
    [columns],
  );
};
