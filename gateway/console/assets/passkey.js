// Passkeys: the browser's side of WebAuthn. What is signed is the request itself: SHA-256 over its path, a line feed and
// its args in RFC 8785's form.

const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), (c) => c.charCodeAt(0));
const text = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');

export const usable = () => Boolean(window.PublicKeyCredential && navigator.credentials);

// canonical is RFC 8785's form: keys in the order of their UTF-16 code units, numbers and texts as JSON.stringify has them.
export function canonical(v) {
  if (Array.isArray(v)) return '[' + v.map(canonical).join(',') + ']';
  if (v === null || typeof v !== 'object') return JSON.stringify(v);
  return '{' + Object.keys(v).filter((k) => v[k] !== undefined).sort().map((k) => JSON.stringify(k) + ':' + canonical(v[k])).join(',') + '}';
}

const challengeOf = (path, args) => crypto.subtle.digest('SHA-256', new TextEncoder().encode(path + '\n' + canonical(args)));

// sign has one request signed. put sends a command; the answer is the proof, and the args that were signed with it: but for
// a card, which is new each time, they hold a nonce.
export async function sign(put, path, args) {
  const fresh = await put('proof/challenge', {});
  if (fresh.credentials.length === 0) throw new Error('No passkey is enrolled: add one with sp passkey add');
  const signed = path === 'approval/grant' ? args : { ...args, nonce: fresh.nonce };
  const got = await navigator.credentials.get({ publicKey: {
    challenge: await challengeOf(path, signed), rpId: fresh.rpId, userVerification: 'required', timeout: 120000,
    allowCredentials: fresh.credentials.map((id) => ({ type: 'public-key', id: bytes(id) })),
  } });
  const r = got.response;
  const answer = { credentialId: text(got.rawId), authenticatorData: text(r.authenticatorData), clientDataJSON: text(r.clientDataJSON), signature: text(r.signature) };
  if (r.userHandle?.byteLength) answer.userHandle = text(r.userHandle);
  return { kind: 'passkey', value: JSON.stringify(answer), args: signed };
}

// enrol makes the passkey that a ticket is for.
export async function enrol(put, ticket, creation) {
  const o = creation.options;
  const made = await navigator.credentials.create({ publicKey: {
    ...o, challenge: bytes(o.challenge), user: { ...o.user, id: bytes(o.user.id) },
    excludeCredentials: (o.excludeCredentials ?? []).map((c) => ({ ...c, id: bytes(c.id) })),
  } });
  const r = made.response;
  return put('passkey/enrol', { ticket, registration: {
    credentialId: text(made.rawId), clientDataJSON: text(r.clientDataJSON), attestationObject: text(r.attestationObject),
    transports: r.getTransports?.() ?? [],
  } });
}

// why says what an authenticator's refusal means; the browser tells no more, on purpose.
export function why(e) {
  switch (e?.name) {
    case 'NotAllowedError': return 'It was cancelled, took too long, or the authenticator could not verify you.';
    case 'InvalidStateError': return 'This authenticator holds a passkey of this gateway already.';
    case 'NotSupportedError': case 'ConstraintError': return 'This authenticator can’t verify its user, or makes no key of a kind that is taken here.';
    case 'SecurityError': return 'The browser takes passkeys on http://localhost alone: open the page by that name.';
  }
  return e?.reason ?? e?.message ?? String(e);
}
