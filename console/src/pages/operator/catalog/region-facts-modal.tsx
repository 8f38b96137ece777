/** Name, place and addresses of a region. */
import { TextInput } from '@mantine/core';
import { useState } from 'react';
import { api } from '../../../app/api.ts';
import { ActModal } from '../../../parts/act-modal.tsx';
import { useTexts } from '../../../texts/provider.tsx';
import { CATALOG_STALE, type ManagedRegion } from './queries.ts';

export function RegionFactsModal({ region, onClose }: { region: ManagedRegion; onClose: () => void }) {
  const { catalog, common } = useTexts();
  const [fields, setFields] = useState({
    name: region.name,
    value: region.value,
    location: region.location,
    domain: region.domainFrom === 'settings' ? '' : region.domain,
    sshAddress: region.sshAddress,
  });
  // The ssh address of this machine's region follows the settings of the server.
  const shown = (['name', 'value', 'location', 'domain', 'sshAddress'] as const).filter(
    (field) => field !== 'sshAddress' || region.settings !== null,
  );
  return (
    <ActModal
      title={catalog.editTitle(region.name)}
      label={common.save}
      isReady={fields.name.trim() !== '' && fields.value !== '' && fields.location.trim() !== ''}
      stale={CATALOG_STALE}
      onClose={onClose}
      act={() =>
        api.updateRegion({
          regionId: region.regionId,
          version: region.version,
          name: fields.name.trim(),
          value: fields.value,
          location: fields.location.trim(),
          domain: fields.domain === '' ? null : fields.domain,
          ...(region.settings === null ? {} : { sshAddress: fields.sshAddress }),
        })
      }
    >
      {shown.map((field) => (
        <TextInput
          key={field}
          label={catalog.facts[field]}
          description={field === 'domain' ? catalog.domainHint : undefined}
          value={fields[field]}
          onChange={({ currentTarget: { value } }) => setFields((before) => ({ ...before, [field]: value }))}
        />
      ))}
    </ActModal>
  );
}
