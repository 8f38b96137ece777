import { EngineFault } from '../../../domain/regions/engine-fault.ts';
import { parseRegistryServer, isLocalServer, registryServerOf } from '../../../domain/regions/image-ref.ts';
import { Refusal } from '../../../domain/kernel/refusal.ts';
import type { RegistryCredentials } from '../../../engines/contract.ts';
import { appendEvent } from '../../../store/tables/events.ts';
import { deleteKey, insertRegistryCredential, keyRowsOf, registryCredentialFor } from '../../../store/tables/keys.ts';
import type { ImageRequest } from './newest-image.ts';
import { writeOwnAccount, requireQuota } from '../../access/ports.ts';
import type { UseCaseDeps, WriteDeps, Seal, Caller, Mutation } from '../../kernel/ports.ts';

/** Credentials for registries. No answer has the secret. */
export interface Registries {
  create: Mutation<
    { server: string; username: string; secret: string },
    { registry: { id: string; server: string; username: string } }
  >;
  list(caller: Caller): Promise<{ registries: { id: string; server: string; username: string; createdAt: number }[] }>;
  delete: Mutation<{ id: string }, void>;
}

export interface RegistryDeps extends WriteDeps, Pick<UseCaseDeps, 'randomUuid'> {
  seal: Seal;
  localRegistries: boolean;
}

/** Undefined without credentials for the server. Throws `denied` if they can't be decrypted. */
export type CredentialsFor = (accountId: string, server: string) => Promise<RegistryCredentials | undefined>;

export type InternalRegistries = Registries & { credentialsFor: CredentialsFor };

/** Refuses addresses of the host: the engine's answers would reveal services on it. */
export function refuseLocalRegistry(field: string, written: string, server: string): void {
  if (!isLocalServer(server)) return;
  const instead =
    'use a registry that other machines can reach, or ask the operator to allow this one (BERTH_LOCAL_REGISTRIES)';
  const text = `field "${field}" is ${JSON.stringify(written)}: ${server} is a loopback or link-local address of the engine's host; ${instead}`;
  throw new Refusal('field_value', text);
}

const sealContext = (accountId: string, server: string): string => `${accountId} ${server}`;

export function makeRegistries(deps: RegistryDeps): InternalRegistries {
  const { store, randomUuid, seal, localRegistries } = deps;
  return {
    async create({ accountId }, { server: written, username, secret }, idempotency) {
      const server = readServer(written);
      if (!localRegistries) refuseLocalRegistry('server', written, server);
      return writeOwnAccount(deps, accountId, idempotency, async (tx, nowMs) => {
        const { length } = await keyRowsOf(tx, 'registryCredential', accountId);
        await requireQuota(tx, accountId, 'registries', length);
        const sealed = seal.seal(secret, sealContext(accountId, server));
        const row = { id: randomUuid(), accountId, server, username, secret: sealed, createdAtMs: nowMs };
        const twin = await insertRegistryCredential(tx, row);
        if (twin) {
          const instead = `POST /api/registry/delete {"id":"${twin.id}"} first`;
          const text = `the account already has credentials for ${server}, as ${twin.username}; ${instead}`;
          throw new Refusal('name_taken', text);
        }
        const data = { server, username };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'registry.created', subjectId: row.id, data });
        return { registry: { id: row.id, server, username } };
      });
    },

    async list({ accountId }) {
      const rows = await keyRowsOf(store.read, 'registryCredential', accountId);
      return {
        registries: rows.map(({ id, server, username, createdAtMs: createdAt }) => ({
          id,
          server,
          username,
          createdAt,
        })),
      };
    },

    async delete({ accountId }, { id }, idempotency) {
      await writeOwnAccount(deps, accountId, idempotency, async (tx, nowMs) => {
        const row = await deleteKey(tx, 'registryCredential', accountId, id);
        if (!row) {
          const text = `registry credentials ${JSON.stringify(id)} not found; POST /api/registry/list lists yours`;
          throw new Refusal('not_found', text);
        }
        const data = { server: row.server, username: row.username };
        await appendEvent(tx, { accountId, atMs: nowMs, kind: 'registry.deleted', subjectId: id, data });
        return {};
      });
    },

    async credentialsFor(accountId, server) {
      const row = await registryCredentialFor(store.read, accountId, server);
      if (!row) return undefined;
      const secret = seal.open(row.secret, sealContext(accountId, server));
      if (secret !== null) return { username: row.username, secret };
      const text = `the credentials for ${server} cannot be decrypted, because the installation lost their key; delete the credentials and register them again`;
      throw new EngineFault('denied', text, { retry: false, reason: 'imageDenied' });
    },
  };
}

function readServer(written: string): string {
  const read = parseRegistryServer(written);
  if (typeof read !== 'string') return read.server;
  const right = 'write the server as in image names, such as registry.example.org or 10.0.0.7:5000, or docker.io';
  throw new Refusal('field_value', `field "server" is ${JSON.stringify(written)}: ${read}; ${right}`);
}

export function withCredentialAdvice(fault: EngineFault, { ref, ownerId, credentials }: ImageRequest): EngineFault {
  if (fault.kind !== 'denied' || ownerId === undefined) return fault;
  const server = registryServerOf(ref);
  const advice =
    credentials === undefined
      ? `register credentials for ${server} with POST /api/registry/create`
      : `delete the credentials for ${server} (user ${credentials.username}) with POST /api/registry/delete, and register credentials that may read the image`;
  return new EngineFault(fault.kind, `${fault.message}; ${advice}`, {
    retry: fault.retry,
    reason: fault.reason,
    cause: fault.cause,
  });
}
