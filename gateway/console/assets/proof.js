// The operator's proof: a passphrase or a passkey for one request, or the tab's sitting for cards.

import { h, button, field, notice, fault } from './dom.js';
import { call } from './net.js';
import { sign, usable, why } from './passkey.js';

let sitting; // {id, endsAt}: memory of this tab
const changed = new EventTarget();

export const sits = () => (sitting && new Date(sitting.endsAt) > new Date() ? sitting : undefined);
export const onSitting = (f) => changed.addEventListener('change', f);

function sit(s) {
  sitting = s;
  changed.dispatchEvent(new Event('change'));
}

// ask shows a dialog, and answers with the proof; undefined if it was cancelled. A passkey signs one request: it is offered
// where request, {path, args}, is given. only: nothing else is taken.
export function ask(title, what, yes = 'Confirm', request = undefined, only = false) {
  return new Promise((done) => {
    const input = h('input', { type: 'password', autocomplete: 'off', required: true, spellcheck: 'false' });
    const close = (v) => { input.value = ''; dialog.close(); dialog.remove(); done(v); };
    const said = h('p', { role: 'alert', class: 'alarm', hidden: true });
    const key = button('Use a passkey', { class: only ? 'yes' : '', hidden: true, onclick: async () => {
      key.disabled = true;
      try { close(await sign(call, request.path, request.args)); } catch (e) {
        said.textContent = why(e);
        said.hidden = key.disabled = false;
      }
    } });
    if (request && usable()) offer(key, only);
    const form = h('form', {
      method: 'dialog',
      onsubmit: (e) => { e.preventDefault(); if (input.value) close({ kind: 'passphrase', value: input.value }); },
    }, h('h2', { id: 'proof-title' }, title), what ? h('div', { class: 'what' }, what) : null, only ? null : field('Passphrase', input),
    said, h('div', { class: 'buttons' }, button('Cancel', { onclick: () => close(undefined) }), key, only ? null : h('button', { type: 'submit', class: 'yes' }, yes)));
    const dialog = h('dialog', { class: 'proof', 'aria-labelledby': 'proof-title', oncancel: (e) => { e.preventDefault(); close(undefined); } }, form);
    document.body.append(dialog);
    dialog.showModal();
    if (!only) input.focus();
  });
}

// offer shows the passkey's button where one is enrolled.
async function offer(key, only) {
  const all = await call('passkey/list').catch(() => []);
  key.hidden = all.length === 0 && !only;
  if (only) key.focus();
}

// proved puts a command that needs a proof. It answers undefined if the operator thought better of it.
export async function proved(title, what, path, args, more = {}) {
  const proof = await ask(title, what, 'Confirm', { path, args });
  if (!proof) return undefined;
  return call(path, args, { ...more, proof });
}

export async function openSitting() {
  const proof = await ask('Open a sitting', 'For 15 minutes at most, this tab alone may approve cards without asking again. A credential that wants a passkey still asks.', 'Open', { path: 'sitting/open', args: {} });
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
