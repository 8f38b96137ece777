#!/bin/sh
# Software:  oauth4webapi 3.8.8, ClientSecretBasic (openid-client 6 is built on it); beside it
#            Authlib 1.6.5, client_secret_basic.
# Source:    npm and PyPI; formUrlEncode in oauth4webapi's build/index.js, authlib/oauth2/auth.py.
#
# Behaviour: in the header of HTTP Basic at a token endpoint, oauth4webapi escapes hyphen, underscore,
#            full stop and asterisk of client ID and secret. The form encoding that RFC 6749, 2.3.1,
#            names leaves these four as they are, as URLSearchParams does. Authlib escapes nothing.
# Surprise:  an ID such as my-app is sent as my%2Dapp. A provider that decodes reads it from either
#            client unless it has a percent sign or a plus; one that compares without decoding, as
#            Glewlwyd 2.7.5 does, refuses the first and takes the second, with the same right secret.
# Guess:     the encoding of URLSearchParams, which changes no letter, digit, hyphen or underscore.
# Use:       IDs and secrets of letters and digits alone, where the provider's decoding is unknown.
# Output:    oauth4webapi: my%2Dapp:a%2Db%5Fc%2Ed%2Ae
#            URLSearchParams: my-app:a-b_c.d*e
#            Authlib: my-app:a-b_c.d*e
# Exit:      0 while the behaviour is as described, 1 once it changes.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-save --no-audit --no-fund oauth4webapi@3.8.8 >&2
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check authlib==1.6.5 >&2
cat >check.mjs <<'SCRIPT'
import { clientCredentialsGrantRequest, ClientSecretBasic, customFetch } from 'oauth4webapi';

const [id, secret] = process.argv.slice(2);
const provider = { issuer: 'https://login.example.org', token_endpoint: 'https://login.example.org/token' };
let sent = '';
await clientCredentialsGrantRequest(provider, { client_id: id }, ClientSecretBasic(secret), {}, {
  [customFetch]: async (_url, { headers }) => {
    sent = new Headers(headers).get('authorization') ?? '';
    return new Response('{}');
  },
});
const encoded = (text) => new URLSearchParams([[text, '']]).toString().slice(0, -1);
console.log(`oauth4webapi: ${Buffer.from(sent.replace('Basic ', ''), 'base64')}`);
console.log(`URLSearchParams: ${encoded(id)}:${encoded(secret)}`);
SCRIPT
cat >check.py <<'SCRIPT'
import base64
import sys
from types import SimpleNamespace
from authlib.oauth2.auth import encode_client_secret_basic

client = SimpleNamespace(client_id=sys.argv[1], client_secret=sys.argv[2])
_, headers, _ = encode_client_secret_basic(client, "POST", "https://login.example.org/token", {}, "")
print("Authlib:", base64.b64decode(headers["Authorization"].removeprefix("Basic ")).decode())
SCRIPT
{
  node check.mjs my-app 'a-b_c.d*e'
  venv/bin/python check.py my-app 'a-b_c.d*e'
} | tee output
cat >expected <<'SCRIPT'
oauth4webapi: my%2Dapp:a%2Db%5Fc%2Ed%2Ae
URLSearchParams: my-app:a-b_c.d*e
Authlib: my-app:a-b_c.d*e
SCRIPT
cmp -s output expected
