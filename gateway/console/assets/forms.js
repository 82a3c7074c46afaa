// Forms in dialogs: what is typed goes with one proof, and a value is never shown again.

import { h, button, field, fault } from './dom.js';
import { value } from './net.js';
import { proved } from './proof.js';

export const lines = (text) => text.split('\n').map((l) => l.trim()).filter(Boolean);
export const put = (o, k, v) => { if (v !== '' && v !== false && v !== undefined && !(Array.isArray(v) && v.length === 0)) o[k] = v; };

export const text = (attrs) => h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', ...attrs });
export const area = (attrs) => h('textarea', { rows: '4', spellcheck: 'false', autocomplete: 'off', ...attrs });
export const choice = (options, chosen) => h('select', null, options.map((o) => h('option', { value: o[0] ?? o, selected: (o[0] ?? o) === chosen }, o[1] ?? o)));
export const check = (label) => { const c = h('input', { type: 'checkbox' }); return [c, h('label', { class: 'offer' }, c, h('span', null, label))]; };

// form shows a dialog; send is called at its yes and may throw the door's refusal, which is shown in it.
export function form(title, body, yes, send) {
  const said = h('p', { class: 'alarm', role: 'alert' });
  const close = () => { dialog.close(); dialog.remove(); };
  const submit = h('button', { type: 'submit', class: 'yes' }, yes);
  const f = h('form', { method: 'dialog', onsubmit: async (e) => {
    e.preventDefault();
    said.textContent = '';
    submit.disabled = true;
    try { if (await send() !== false) close(); } catch (err) {
      if (err.error) said.textContent = err.reason + (err.retry ? '. ' + err.retry : '');
      else { said.textContent = String(err.message ?? err); }
    }
    submit.disabled = false;
  } }, h('h2', { id: 'form-title' }, title), body, said, h('div', { class: 'buttons' }, button('Cancel', { onclick: close }), submit));
  const dialog = h('dialog', { class: 'wide', 'aria-labelledby': 'form-title', oncancel: (e) => { e.preventDefault(); close(); } }, f);
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// secret is a field for a value: several lines, never filled in by the browser, emptied once it was sent.
export function secret(label, hint) {
  const input = area({ class: 'secret', rows: '3' });
  return {
    field: field(label, input, hint),
    async take() {
      const bytes = new TextEncoder().encode(input.value.replace(/\r?\n$/, ''));
      if (bytes.length === 0) throw new Error(label + ' is empty');
      return value(bytes);
    },
    clear() { input.value = ''; },
  };
}

// prove asks for the passphrase and sends; false if the operator thought better of it.
export async function prove(title, what, path, args, v) {
  return await proved(title, what, path, v ? { ...args, valueLength: v.valueLength, valueDigest: v.valueDigest } : args, { value: v }) ?? false;
}

// remove asks, proves and removes.
export async function remove(title, what, path, name, done) {
  try {
    const out = await prove(title, what, path, { name });
    if (out) done(out);
  } catch (e) { fault(e); }
}
