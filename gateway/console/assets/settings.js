// Settings: what opens the vault, what the operator decided, and this tab's sitting.

import { h, button, badge, head, table, id, time, facts, notice, fault, keep } from './dom.js';
import { call } from './net.js';
import { sits, openSitting, closeSitting, onSitting, proved } from './proof.js';

export const title = 'Settings';

let drawn;

export async function show(main, _arg, status) {
  main.replaceChildren(head('Settings', 'What decides authority is sealed in the vault, and is changed with a proof.'), h('section', { class: 'passkeys panel' }), h('section', { class: 'sit panel' }), h('section', { class: 'slots panel' }), h('section', { class: 'modes panel' }), h('section', { class: 'about panel' }));
  drawn = () => { if (main.querySelector('.sit')) sitting(main); };
  sitting(main);
  about(main, status ?? await call('vault/status'));
  const [slots, modes] = await Promise.all([call('slot/list'), call('settings/show')]);
  keep(main.querySelector('.slots'), h('h2', null, 'What opens the vault'), table('Slots', ['Kind', 'Since', 'Slot'], slots.map((s) => h('tr', null, h('td', null, badge(s.kind, 'info')), h('td', null, time(s.createdAt)), h('td', null, id(s.id))))),
    h('p', { class: 'hint' }, 'Slots are added and removed with ', h('code', null, 'sp vault slot add'), ' and ', h('code', null, 'sp vault slot rm'), ': a recovery identity is shown once, on a terminal.'));
  passkeys(main).catch(fault);
  keep(main.querySelector('.modes'), h('h2', null, 'Modes'), facts(modes.map((m) => [m.setting, h('code', null, m.new)])),
    h('p', { class: 'hint' }, 'Changed by ', h('code', null, 'sp apply FILE'), ', which shows the difference first.'));
}

onSitting(() => drawn?.());

function sitting(main) {
  const s = sits();
  keep(main.querySelector('.sit'), h('h2', null, 'Sitting'), h('p', { class: 'lead' }, 'One proof, then this tab alone approves cards for 15 minutes at most. It ends with the tab, a lock, or a suspend. A credential that wants a passkey still asks.'),
    h('div', { class: 'buttons' }, s ? [h('span', null, 'Open until ', time(s.endsAt)), button('End sitting', { 'data-key': 'sit', onclick: closeSitting })] : button('Open a sitting', { 'data-key': 'sit', onclick: openSitting })));
}

async function passkeys(main) {
  const all = await call('passkey/list');
  const box = main.querySelector('.passkeys');
  if (!box) return;
  keep(box, h('h2', null, 'Passkeys'), all.length === 0 ? h('p', { class: 'lead' }, 'None. A passkey signs exactly what a card shows, and can\'t be typed by somebody else.')
    : table('Passkeys', ['Name', 'Since', 'Id', ''], all.map((p) => h('tr', null, h('td', null, p.name), h('td', null, time(p.addedAt)), h('td', null, id(p.id)),
      h('td', { class: 'do' }, h('div', { class: 'buttons' }, button('Remove', { class: 'small cut', 'data-key': 'rm-' + p.id, 'aria-label': 'Remove ' + p.name, onclick: () => drop(main, p) })))))),
  h('p', { class: 'hint' }, h('code', null, 'sp passkey add'), ' prints a page, usable once, where one is made.'));
}

async function drop(main, p) {
  try {
    if (await proved(`Remove ${p.name}`, 'It proves nothing from then on.', 'passkey/remove', { id: p.id })) {
      notice('done', `${p.name} is removed.`);
      await passkeys(main);
    }
  } catch (e) { fault(e); }
}

function about(main, status) {
  keep(main.querySelector('.about'), h('h2', null, 'Gateway'), facts([['Vault', badge(status.vault)], ['Version', status.version], ['Process', `pid ${status.pid}`], ['Log', `${status.audit.records.toLocaleString()} records`],
    ['Writes of unknown outcome', status.unresolved ? `${status.unresolved}: see Activity` : 'none', status.unresolved ? 'alarm' : '']]),
  h('div', { class: 'buttons' }, status.vault === 'ready' ? button('Lock the vault', { class: 'cut', onclick: () => call('vault/lock').then(() => notice('done', 'The vault is locked. Every grant is void.')).catch(fault) }) : null));
}
