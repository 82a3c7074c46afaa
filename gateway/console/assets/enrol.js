// The page that makes one passkey. Its ticket stands in the fragment, works once, and is its only key: there is no session.

import { h, button, id } from './dom.js';
import { enrol, usable, why } from './passkey.js';

const main = document.getElementById('main');
const ticket = location.hash.slice(1);
history.replaceState(null, '', location.pathname);

async function put(path, args) {
  const res = await fetch('/v1/op/' + path, { method: 'POST', cache: 'no-store', body: JSON.stringify({ args }) + '\n', headers: { 'Content-Type': 'application/octet-stream' } });
  const doc = await res.json();
  if (!res.ok) throw doc;
  return doc;
}

const say = (title, ...more) => main.replaceChildren(h('div', { class: 'empty' }, h('h1', null, title), ...more));
const again = () => h('pre', null, 'sp passkey add');

function ask(creation) {
  const said = h('p', { role: 'alert', class: 'alarm' });
  const make = button('Make the passkey', { class: 'yes', onclick: async () => {
    make.disabled = true;
    said.textContent = '';
    try { done(await enrol(put, ticket, creation)); } catch (e) {
      said.textContent = why(e);
      make.disabled = e?.error !== undefined; // the gateway's no is final, the authenticator's is not
      if (e?.error) said.append(' Begin again:', again());
    }
  } });
  say('A passkey for this gateway',
    h('p', null, 'It will be named ', h('strong', null, creation.name), '. It proves your requests in the passphrase’s place, and says yes to cards of credentials that want a passkey for each use.'),
    h('p', null, 'Your browser asks for a PIN, a finger or a face: without that it proves nothing here.'), h('div', { class: 'buttons' }, make), said);
  make.focus();
}

function done(k) {
  say('The passkey is enrolled',
    h('p', null, h('strong', null, k.name), ' signs with ', k.algorithm, '. Its id is ', id(k.id), '.'),
    k.synced ? h('p', null, 'It is a synced passkey: whoever keeps your other devices’ passkeys keeps this one too.') : null,
    h('p', { class: 'faint' }, 'Its public key is in the log, so that a reviewer can check what it signs. You can close this page.'));
}

if (ticket === '' || ticket === 'main') say('This page needs its link', h('p', null, 'The link works once. Make a new one:'), again());
else if (!usable()) say('This browser makes no passkeys', h('p', null, 'Use another one, on this machine. Make a new link for it:'), again());
else {
  try { ask(await put('passkey/open', { ticket })); } catch (e) { say('This link is over', h('p', null, why(e)), again()); }
}
