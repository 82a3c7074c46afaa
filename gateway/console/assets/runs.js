// Runs: who may act, by which process, and the two ways to end it.

import { h, button, badge, id, head, empty, link, table, ago, known, notice, fault, keep, many } from './dom.js';
import { call } from './net.js';

export const title = 'Runs';
export const pause = 700; // ms between two looks

const perPage = 100;
let state = 'all';
let find = '';
let at = 0;
let runs = [];

const order = ['active', 'pending', 'orphaned', 'denied', 'revoked', 'ended'];

export async function show(main) {
  at = 0;
  const search = h('input', { type: 'search', placeholder: 'Id, command, server label …', 'aria-label': 'Search runs', value: find, 'data-key': 'find',
    oninput: (e) => { find = e.target.value; at = 0; paint(main); } });
  const states = h('div', { class: 'chips', role: 'group', 'aria-label': 'State' });
  const list = h('div', { class: 'list' });
  const pager = h('div', { class: 'pager' });
  main.replaceChildren(head('Runs', 'One run is one live instance of an agent. Authority belongs to a run and to its epochs, never to a name.'),
    h('div', { class: 'bar' }, states, search), list, pager);
  await refresh(main);
}

export async function refresh(main) {
  runs = await call('run/list');
  paint(main);
}

function paint(main) {
  const counts = {};
  for (const r of runs) counts[r.state] = (counts[r.state] ?? 0) + 1;
  const chip = (name, label, n) => button(`${label} ${n}`, { class: 'chip', 'aria-pressed': String(state === name), 'data-key': 'chip-' + name,
    onclick: () => { state = name; at = 0; paint(main); } });
  keep(main.querySelector('.chips'), chip('all', 'All', runs.length), ...order.filter((x) => counts[x]).map((x) => chip(x, x, counts[x])));
  const want = find.trim().toLowerCase();
  const shown = runs.filter((r) => (state === 'all' || r.state === state) && (want === '' || text(r).includes(want)));
  at = Math.min(at, Math.max(0, Math.ceil(shown.length / perPage) - 1) * perPage);
  const part = shown.slice(at, at + perPage);
  keep(main.querySelector('.list'), shown.length === 0
    ? empty(runs.length ? 'No run is like that' : 'No run yet', runs.length ? 'Change the filter above.' : 'A run begins when an agent makes its first contact.')
    : table('Runs', ['State', 'Agent', 'Run and epochs', 'Calls', 'Last action', ''], part.map(row)));
  pager(main.querySelector('.pager'), shown.length, () => paint(main));
}

const text = (r) => [r.id, r.agent.command, r.state, ...r.epochs.flatMap((e) => [e.id, e.serverLabel])].join(' ').toLowerCase();

function pager(box, n, again) {
  if (n <= perPage) { box.replaceChildren(); return; }
  const go = (to) => { at = to; again(); scrollTo(0, 0); };
  keep(box, button('Newer', { disabled: at === 0, 'data-key': 'newer', onclick: () => go(at - perPage) }),
    h('span', { class: 'faint' }, `${at + 1}–${Math.min(at + perPage, n)} of ${n}`),
    button('Older', { disabled: at + perPage >= n, 'data-key': 'older', onclick: () => go(at + perPage) }));
}

function row(r) {
  const over = r.state === 'revoked';
  return h('tr', { 'data-run': r.id },
    h('td', null, badge(r.state)),
    h('td', { class: 'command' }, h('div', { class: 'one' }, r.agent.command || 'unknown'), h('div', { class: 'faint' }, `pid ${r.agent.processId}, ${r.agent.identity || 'unknown'}`)),
    h('td', null, link('/runs/' + r.id, id(r.id)), epochs(r)),
    h('td', { class: 'num', 'data-name': 'Calls' }, String(r.calls)),
    h('td', { 'data-name': 'Last action' }, known(r.lastActionStartedAt) ? ago(r.lastActionStartedAt) : h('span', { class: 'faint' }, '–')),
    h('td', { class: 'do' }, h('div', { class: 'buttons' },
      over ? null : button('Revoke', { class: 'cut small', 'data-key': 'revoke-' + r.id, 'aria-label': 'Revoke ' + r.id, onclick: (e) => revoke(r.id, e.currentTarget) }),
      h('a', { class: 'button small', href: '/runs/' + r.id + '?contain', 'data-page': true, 'aria-label': 'Contain ' + r.id }, 'Contain'))));
}

function epochs(r) {
  const live = r.epochs.filter((e) => e.state !== 'ended');
  const some = (live.length ? live : r.epochs).slice(-3);
  return h('div', { class: 'epochs' }, some.map((e) => h('div', null, id(e.id), ' ', h('span', { class: 'faint' }, [e.serverLabel, e.state].filter(Boolean).join(', ')))),
    r.epochs.length > some.length ? h('div', { class: 'faint' }, `and ${r.epochs.length - some.length} more`) : null);
}

export async function revoke(run, btn) {
  btn.disabled = true;
  try {
    const done = await call('run/revoke', { id: run });
    notice('done', `Revoked. ${done.left.length === 0 ? 'Nothing was under way.' : `${many(done.left.length, 'call')} had left before: see the run's activity for their class.`}`);
    return done;
  } catch (e) {
    fault(e);
    btn.disabled = false;
    return undefined;
  }
}
