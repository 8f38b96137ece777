/** One event stream for all tabs: browsers open few connections to a host. */
import { followEvents, type FeedMessage } from './event-feed.ts';

const ports = new Set<MessagePort>();
let connection: FeedMessage | null = null;
let isFollowing = false;

const send = (message: FeedMessage): void => {
  if (message.type === 'connection') connection = message;
  for (const port of ports) port.postMessage(message);
};

globalThis.addEventListener('connect', (event) => {
  const [port] = event instanceof MessageEvent ? event.ports : [];
  if (port === undefined) return;
  ports.add(port);
  // A tab says that it closes; the others may stay.
  port.addEventListener('message', () => ports.delete(port));
  port.start();
  if (connection !== null) port.postMessage(connection);
  if (isFollowing) return;
  isFollowing = true;
  void followEvents(send).finally(() => {
    isFollowing = false;
    connection = null;
  });
});
