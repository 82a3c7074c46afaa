// The tab's session, and the operators' door behind it. The session is in this module's memory and nowhere else: loaded
// anew, the page has none.

let session = '';
let ended = () => {};

export const onEnd = (f) => { ended = f; };

const random = (n) => [...crypto.getRandomValues(new Uint8Array(n))].map((b) => b.toString(16).padStart(2, '0')).join('');

// open spends the token of the URL's fragment, and takes it out of the URL.
export async function open() {
  const token = location.hash.slice(1);
  if (token === '' || token === 'main') return false;
  history.replaceState(null, '', location.pathname);
  const res = await fetch('/open', { method: 'POST', headers: { Authorization: 'Bearer ' + token }, cache: 'no-store' });
  if (!res.ok) return false;
  session = (await res.json()).session;
  return true;
}

export const speaks = () => session !== '';

// value is bytes that follow a request's line: args hold its length and its digest over a fresh salt.
export async function value(bytes) {
  const salt = crypto.getRandomValues(new Uint8Array(16));
  const both = new Uint8Array(salt.length + bytes.length);
  both.set(salt);
  both.set(bytes, salt.length);
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', both));
  return { bytes, salt: base64(salt), valueLength: bytes.length, valueDigest: base64(digest) };
}

export const base64 = (b) => btoa(String.fromCharCode(...b));

// call puts one command to the operators' door. It is never repeated by itself. The error thrown is the door's.
export async function call(path, args = {}, { proof, value: v } = {}) {
  const envelope = { args };
  if (proof) {
    const { args: signed, ...bare } = proof; // a passkey signed these args, and no others
    envelope.proof = bare;
    if (signed) envelope.args = signed;
  }
  if (v) envelope.salt = v.salt;
  const line = new TextEncoder().encode(JSON.stringify(envelope) + '\n');
  const body = new Uint8Array(line.length + (v ? v.bytes.length : 0));
  body.set(line);
  if (v) body.set(v.bytes, line.length);
  let res;
  try {
    res = await fetch('/v1/op/' + path, {
      method: 'POST', body, cache: 'no-store',
      headers: { Authorization: 'Bearer ' + session, 'Request-Id': random(16), 'Content-Type': 'application/octet-stream' },
    });
  } catch {
    throw { error: 'gateway_unreachable', reason: 'The gateway did not answer; it may have done it: look before you repeat it' };
  }
  const text = await res.text();
  let doc;
  try { doc = JSON.parse(text); } catch { throw { error: 'internal', reason: 'The answer to ' + path + ' is not understood' }; }
  if (res.ok) return doc;
  if (res.status === 403 && /session has ended|needs a tab/.test(doc.reason ?? '')) { session = ''; ended(); }
  throw doc;
}

// follow tells every change of the gateway's status, until the session ends. A stream that breaks is begun anew.
export async function follow(onStatus, onLost) {
  for (let wait = 250; session !== ''; ) {
    try {
      const res = await fetch('/events', { headers: { Authorization: 'Bearer ' + session }, cache: 'no-store' });
      if (res.status === 403) { session = ''; ended(); return; }
      const reader = res.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ''; ;) {
        const { value: part, done } = await reader.read();
        if (done) break;
        wait = 250;
        rest += part;
        const events = rest.split('\n\n');
        rest = events.pop();
        for (const e of events) {
          const data = e.split('\n').find((l) => l.startsWith('data: '));
          if (data) onStatus(JSON.parse(data.slice(6)));
        }
      }
    } catch { /* told by onLost */ }
    if (session === '') return;
    onLost();
    await new Promise((r) => { setTimeout(r, wait); });
    wait = Math.min(wait * 2, 5000);
  }
}
