/** Script of the login page: logs in by a passkey where the browser has them. */
const button = document.querySelector('#passkey');
const trouble = document.querySelector('#passkey-trouble');

const toText = (buffer) =>
  btoa(String.fromCodePoint(...new Uint8Array(buffer)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
const toBytes = (text) =>
  Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), (letter) => letter.codePointAt(0));

/** Address below the path that a proxy serves Berth at; other addresses stay. */
const below = (address) => new URL(address.replace(/^\/(?!\/)/, './'), import.meta.url).href;

async function ask(path, body) {
  const response = await fetch(below(`/api/user/login/passkey${path}`), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.message);
  return answer;
}

async function logIn() {
  const { challenge, rpId } = await ask('/begin', {});
  const { id, response } = await navigator.credentials.get({
    publicKey: { challenge: toBytes(challenge), rpId, userVerification: 'required' },
  });
  const { clientDataJSON, authenticatorData, signature } = response;
  await ask('', {
    id,
    clientDataJSON: toText(clientDataJSON),
    authenticatorData: toText(authenticatorData),
    signature: toText(signature),
  });
  window.location.assign(below(button.dataset.next));
}

button.parentElement.hidden = window.PublicKeyCredential === undefined;
button.addEventListener('click', () => {
  trouble.hidden = true;
  logIn().catch((error) => {
    // A browser says in its own words what it refuses; most of all that the person canceled.
    trouble.textContent = error instanceof DOMException ? button.dataset.failed : error.message;
    trouble.hidden = false;
  });
});
