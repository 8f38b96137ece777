/** The statement of a month, to keep, to print, and for tools that read FOCUS. */
import { Button, Menu } from '@mantine/core';
import { IconChevronDown, IconFileTypeCsv, IconFileTypeXls, IconPrinter, IconTable } from '@tabler/icons-react';
import { routeOf } from '../../../../src/contract/routes.ts';
import { base } from '../../app/base.ts';
import { useSession } from '../../app/session.ts';
import { useTexts } from '../../texts/provider.tsx';

export function StatementMenu({ month, timeZone }: { month: string; timeZone: string }) {
  const { billing } = useTexts();
  const { isAdmin } = useSession();
  const link = (name: 'statementCsv' | 'statementXlsx' | 'statementPage' | 'focusCsv' | 'focusCsvOfAll'): string =>
    `${base}/api${routeOf(name).path}?${new URLSearchParams({ month, timeZone })}`;
  return (
    <Menu position="bottom-start">
      <Menu.Target>
        <Button variant="default" rightSection={<IconChevronDown size={13} />}>
          {billing.statement}
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component="a" href={link('statementPage')} target="_blank" leftSection={<IconPrinter size={15} />}>
          {billing.print}
        </Menu.Item>
        <Menu.Item component="a" href={link('statementXlsx')} download leftSection={<IconFileTypeXls size={15} />}>
          {billing.xlsx}
        </Menu.Item>
        <Menu.Item component="a" href={link('statementCsv')} download leftSection={<IconFileTypeCsv size={15} />}>
          {billing.csv}
        </Menu.Item>
        <Menu.Item component="a" href={link('focusCsv')} download leftSection={<IconTable size={15} />}>
          {billing.focus}
        </Menu.Item>
        {isAdmin && (
          <Menu.Item component="a" href={link('focusCsvOfAll')} download leftSection={<IconTable size={15} />}>
            {billing.focusOfAll}
          </Menu.Item>
        )}
      </Menu.Dropdown>
    </Menu>
  );
}
