/** The next sensible act of an instance as a button; the others in a menu, each with a reason. */
import { Menu, UnstyledButton } from '@mantine/core';
import { IconDotsVertical } from '@tabler/icons-react';
import { useNavigate } from '@tanstack/react-router';
import { useState } from 'react';
import type { InstanceObject } from '../../../../src/contract/compute/instance.ts';
import { MenuLink } from '../../parts/links.tsx';
import { useTexts } from '../../texts/provider.tsx';
import { useAct, useOpen } from './acts.ts';
import { idOf, mayAct, nextActOf, type ActName } from './allowed-acts.ts';
import { ActItems } from './act-items.tsx';
import classes from './instances.module.css';
import { TerminateDialog } from './terminate-dialog.tsx';

export function RowActs({ instance }: { instance: InstanceObject }) {
  const texts = useTexts();
  const { acts } = texts.instances;
  const act = useAct();
  const open = useOpen();
  const navigate = useNavigate();
  const [isMenuUsed, setMenuUsed] = useState(false);
  const [isTerminating, setTerminating] = useState(false);
  const next = nextActOf(instance);
  const instanceId = idOf(instance);
  const perform = (name: ActName): void => {
    if (name === 'terminate') setTerminating(true);
    else act.mutate({ act: name, instance });
  };
  const onNext = (): void => {
    switch (next) {
      case 'open':
        open(instanceId);
        break;
      case 'why':
      case 'watch':
        void navigate({ to: '/instances/$instanceId', params: { instanceId } });
        break;
      case 'pay':
        void navigate({ to: '/billing' });
        break;
      case null:
        break;
      default:
        perform(next);
    }
  };
  return (
    <div className={classes.acts}>
      {next !== null && (
        <button
          type="button"
          className={classes.next}
          data-light={next === 'open' || undefined}
          disabled={act.isPending}
          aria-busy={act.isPending}
          onClick={onNext}
        >
          {acts[next]}
        </button>
      )}
      {isMenuUsed ? (
        <Menu position="bottom-end" defaultOpened returnFocus>
          <Menu.Target>
            <UnstyledButton className={classes.more} aria-label={texts.common.more} autoFocus>
              <IconDotsVertical size={16} />
            </UnstyledButton>
          </Menu.Target>
          <Menu.Dropdown>
            <ActItems instance={instance} except={next} isPossible={(name) => mayAct(instance, name)} onAct={perform} />
            <Menu.Divider />
            <MenuLink to="/launch" search={{ like: instanceId }}>
              {acts.again}
            </MenuLink>
          </Menu.Dropdown>
        </Menu>
      ) : (
        // The menus of all rows would be most of the work of a scroll.
        <button
          type="button"
          className={classes.more}
          aria-label={texts.common.more}
          aria-haspopup="menu"
          onClick={() => setMenuUsed(true)}
        >
          <IconDotsVertical size={16} />
        </button>
      )}
      {isTerminating && <TerminateDialog instances={[instance]} onClose={() => setTerminating(false)} />}
    </div>
  );
}
