// The operator's proof: a passphrase for one request, or the tab's sitting for cards.

import { h, button, field, notice, fault } from './dom.js';
import { call } from './net.js';

let sitting; // {id, endsAt}: memory of this tab
const changed = new EventTarget();

export const sits = () => (sitting && new Date(sitting.endsAt) > new Date() ? sitting : undefined);
export const onSitting = (f) => changed.addEventListener('change', f);

function sit(s) {
  sitting = s;
  changed.dispatchEvent(new Event('change'));
}

// ask shows a dialog for the passphrase, and answers with the proof; undefined if it was cancelled.
export function ask(title, what, yes = 'Confirm') {
  return new Promise((done) => {
    const input = h('input', { type: 'password', autocomplete: 'off', required: true, spellcheck: 'false' });
    const close = (v) => { input.value = ''; dialog.close(); dialog.remove(); done(v); };
    const form = h('form', {
      method: 'dialog',
      onsubmit: (e) => { e.preventDefault(); if (input.value) close({ kind: 'passphrase', value: input.value }); },
    }, h('h2', { id: 'proof-title' }, title), what ? h('div', { class: 'what' }, what) : null, field('Passphrase', input),
    h('div', { class: 'buttons' }, button('Cancel', { onclick: () => close(undefined) }), h('button', { type: 'submit', class: 'yes' }, yes)));
    const dialog = h('dialog', { class: 'proof', 'aria-labelledby': 'proof-title', oncancel: (e) => { e.preventDefault(); close(undefined); } }, form);
    document.body.append(dialog);
    dialog.showModal();
    input.focus();
  });
}

// proved puts a command that needs a proof. It answers undefined if the operator thought better of it.
export async function proved(title, what, path, args, more = {}) {
  const proof = await ask(title, what);
  if (!proof) return undefined;
  return call(path, args, { ...more, proof });
}

export async function openSitting() {
  const proof = await ask('Open a sitting', 'For 15 minutes at most, this tab alone may approve cards without asking again. A credential that wants a passkey still asks.', 'Open');
  if (!proof) return;
  try {
    sit(await call('sitting/open', {}, { proof }));
    notice('done', 'A sitting is open in this tab.');
  } catch (e) { fault(e); }
}

export async function closeSitting() {
  const s = sitting;
  sit(undefined);
  if (s) await call('sitting/close', { id: s.id }).catch(fault);
}

// over forgets a sitting that the gateway ended.
export const over = () => sit(undefined);
