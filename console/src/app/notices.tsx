/** Notifications, loaded with the first one: the first page of a visit does without. */
import { useNotifications } from '@mantine/notifications';
import { lazy, Suspense, useState } from 'react';

const NoticeList = lazy(() => import('./notice-list.ts'));

export function Notices() {
  const { notifications } = useNotifications();
  const [isUsed, setUsed] = useState(false);
  if (!isUsed && notifications.length > 0) setUsed(true);
  return isUsed ? (
    <Suspense>
      <NoticeList position="bottom-right" />
    </Suspense>
  ) : null;
}
