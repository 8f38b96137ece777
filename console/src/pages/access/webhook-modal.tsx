/** Address and events of a webhook, new or changed. */
import { Switch, TagsInput, TextInput } from '@mantine/core';
import { useState } from 'react';
import { api } from '../../app/api.ts';
import { useSession } from '../../app/session.ts';
import { FormModal } from '../../parts/form-modal.tsx';
import { useTexts } from '../../texts/provider.tsx';
import type { Webhook } from './webhooks-tab.tsx';

/** First parts of kinds that people ask for; others are typed. */
const suggestions = ['instance', 'volume', 'snapshot', 'disk', 'billing', 'image', 'apiKey', 'account'];

interface WebhookModalProps {
  webhook?: Webhook;
  /** The secret of a new one; it is not repeated. */
  onDone: (secret: string | undefined) => void;
  onClose: () => void;
}

export function WebhookModal({ webhook, onDone, onClose }: WebhookModalProps) {
  const { access, common } = useTexts();
  const { webhooks } = access;
  const { isAdmin } = useSession();
  const [url, setUrl] = useState(webhook?.url ?? '');
  const [kinds, setKinds] = useState(webhook?.kinds ?? []);
  const [allAccounts, setAllAccounts] = useState(false);
  const save = async (): Promise<string | undefined> => {
    if (webhook === undefined)
      return (await api.createWebhook({ url: url.trim(), kinds, ...(allAccounts ? { allAccounts } : {}) })).secret;
    await api.updateWebhook({ id: webhook.id, url: url.trim(), kinds });
    return undefined;
  };
  return (
    <FormModal
      title={webhook === undefined ? webhooks.create : webhooks.edit}
      verb={webhook === undefined ? webhooks.create : common.save}
      isReady={url.trim() !== ''}
      act={save}
      onDone={onDone}
      onClose={onClose}
    >
      <TextInput
        type="url"
        label={webhooks.url}
        description={webhooks.urlHint}
        placeholder="https://hooks.example.net/berth"
        value={url}
        onChange={({ currentTarget }) => setUrl(currentTarget.value)}
        data-autofocus
      />
      <TagsInput
        label={webhooks.kinds}
        description={webhooks.kindsHint}
        value={kinds}
        onChange={setKinds}
        data={suggestions}
        splitChars={[',', ' ']}
        maxTags={50}
        acceptValueOnBlur
      />
      {isAdmin && webhook === undefined && (
        <Switch
          label={webhooks.allAccountsSwitch}
          checked={allAccounts}
          onChange={({ currentTarget }) => setAllAccounts(currentTarget.checked)}
        />
      )}
    </FormModal>
  );
}
