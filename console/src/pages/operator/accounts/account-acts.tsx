/** Acts on an account: a menu, and the dialog of each. */
import { ActionIcon, Menu } from '@mantine/core';
import { IconDotsVertical } from '@tabler/icons-react';
import { useState } from 'react';
import { useTexts } from '../../../texts/provider.tsx';
import type { Account } from './account.ts';
import { CreditModal, OverdraftModal } from './money-modals.tsx';
import {
  DeleteModal,
  DisableModal,
  EnableModal,
  ResetFactorModal,
  ResetModal,
  RestoreModal,
  RoleModal,
} from './state-modals.tsx';

export type AccountActName =
  'credit' | 'overdraft' | 'role' | 'reset' | 'resetFactor' | 'disable' | 'enable' | 'delete' | 'restore';

/** What the state of an account allows. */
export const actsOf = ({
  state,
  secondFactors,
}: Pick<Account, 'state' | 'secondFactors'>): readonly AccountActName[] => {
  const factor = secondFactors.length > 0 ? (['resetFactor'] as const) : [];
  const always = ['credit', 'overdraft', 'role', ...factor] as const;
  if (state === 'deleting') return ['restore'];
  return state === 'disabled' ? [...always, 'enable', 'delete'] : [...always, 'reset', 'disable', 'delete'];
};

export function AccountActs({ account }: { account: Account }) {
  const { accounts, common } = useTexts();
  const [open, setOpen] = useState<AccountActName>();
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionIcon aria-label={`${common.more}: ${account.username}`}>
            <IconDotsVertical size={16} />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          {actsOf(account).map((name) => (
            <Menu.Item key={name} color={name === 'delete' ? 'red' : undefined} onClick={() => setOpen(name)}>
              {accounts.acts[name]}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      {open && <AccountModal act={open} account={account} onClose={() => setOpen(undefined)} />}
    </>
  );
}

const modals = {
  credit: CreditModal,
  overdraft: OverdraftModal,
  role: RoleModal,
  reset: ResetModal,
  resetFactor: ResetFactorModal,
  disable: DisableModal,
  enable: EnableModal,
  delete: DeleteModal,
  restore: RestoreModal,
} as const;

export function AccountModal({ act, ...props }: { act: AccountActName; account: Account; onClose: () => void }) {
  const Modal = modals[act];
  return <Modal {...props} />;
}
