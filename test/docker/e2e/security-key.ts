/** An ssh agent with one security-key (FIDO) key, as OpenSSH expects it; `touch` is a setting. */
import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { field, mpint } from '../../fixtures/ssh-wire.ts';

export interface SecurityKey {
  publicKey: string;
  /** Path of the agent's socket. */
  socket: string;
  touched: boolean;
  stop(): void;
}

const [REQUEST, IDENTITIES, SIGN, SIGNED, FAILED] = [11, 12, 13, 14, 5];
const USER_PRESENT = 1;
const sha256 = (bytes: Buffer | string): Buffer => createHash('sha256').update(bytes).digest();

export async function makeSecurityKey(curve: 'ed25519' | 'P-256', socket: string): Promise<SecurityKey> {
  const type = curve === 'ed25519' ? 'sk-ssh-ed25519@openssh.com' : 'sk-ecdsa-sha2-nistp256@openssh.com';
  const { publicKey, privateKey } =
    curve === 'ed25519' ? generateKeyPairSync('ed25519') : generateKeyPairSync('ec', { namedCurve: curve });
  const { x = '', y = '' } = publicKey.export({ format: 'jwk' });
  const [right, up] = [Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')];
  const point =
    curve === 'ed25519' ? [field(right)] : [field('nistp256'), field(Buffer.concat([Buffer.from([4]), right, up]))];
  const blob = Buffer.concat([field(type), ...point, field('ssh:')]);

  const made = (text: Buffer): Buffer => {
    if (curve === 'ed25519') return sign(null, text, privateKey);
    const both = sign('sha256', text, { key: privateKey, dsaEncoding: 'ieee-p1363' });
    return Buffer.concat([mpint(both.subarray(0, 32)), mpint(both.subarray(32))]);
  };
  const signatureOf = (data: Buffer): Buffer => {
    const tail = Buffer.from([key.touched ? USER_PRESENT : 0, 0, 0, 0, 9]);
    const signature = made(Buffer.concat([sha256('ssh:'), tail, sha256(data)]));
    return Buffer.concat([field(type), field(signature), tail]);
  };
  const answer = (message: Buffer): Buffer => {
    if (message[0] === REQUEST)
      return Buffer.concat([Buffer.from([IDENTITIES, 0, 0, 0, 1]), field(blob), field('security key')]);
    if (message[0] !== SIGN) return Buffer.from([FAILED]);
    const dataAt = 5 + message.readUInt32BE(1);
    const data = message.subarray(dataAt + 4, dataAt + 4 + message.readUInt32BE(dataAt));
    return Buffer.concat([Buffer.from([SIGNED]), field(signatureOf(data))]);
  };
  const serve = (connection: Socket): void => {
    let unread = Buffer.alloc(0);
    connection.on('error', () => {});
    connection.on('data', (bytes: Buffer) => {
      unread = Buffer.concat([unread, bytes]);
      while (unread.length >= 4 && unread.length >= 4 + unread.readUInt32BE(0)) {
        const end = 4 + unread.readUInt32BE(0);
        connection.write(field(answer(unread.subarray(4, end))));
        unread = unread.subarray(end);
      }
    });
  };
  const server = createServer(serve).listen(socket);
  await once(server, 'listening');
  const key: SecurityKey = {
    publicKey: `${type} ${blob.toString('base64')} security`,
    socket,
    touched: true,
    stop: () => void server.close(),
  };
  return key;
}
