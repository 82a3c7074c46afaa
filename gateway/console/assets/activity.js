// Activity: every call and every denial, newest first, a page at a time.

import { h, s, button, badge, id, head, empty, link, table, time, known, keep, fault } from './dom.js';
import { call } from './net.js';

export const title = 'Activity';
export const pause = 700;

const perPage = 100;
const spans = [['1 h', 60, 60], ['24 h', 900, 96], ['7 d', 7200, 84], ['30 d', 43200, 60]];
const filters = [['all', 'All', {}], ['call', 'Calls', { class: 'call' }], ['denied', 'Denied', { class: 'denied' }],
  ['failed', 'Failed', { class: 'call', outcome: 'failed_remote' }], ['unknown', 'Unknown outcome', { class: 'call', outcome: 'sent_unconfirmed' }],
  ['running', 'Under way', { class: 'call', outcome: 'running' }]];

let span = 0;
let filter = 'all';
let find = '';
let before = []; // marks of the pages up to the one that is shown
let turn = 0; // of the latest question: an older one's answer is not shown

export async function show(main) {
  before = [];
  const search = h('input', { type: 'search', placeholder: 'Path, target, credential, id …', 'aria-label': 'Search activity', value: find, 'data-key': 'find', oninput: (e) => later(e.target.value, main) });
  main.replaceChildren(head('Activity', 'Attempted calls and refused ones, from the rows that are kept for thirty days. The log has them all.'),
    h('figure', { class: 'chart panel' }), h('div', { class: 'bar' }, h('div', { class: 'chips filters', role: 'group', 'aria-label': 'Filter' }), search),
    h('p', { class: 'faint looked', role: 'status' }), h('div', { class: 'list' }), h('div', { class: 'pager' }));
  chips(main);
  await refresh(main);
}

let typing;
function later(v, main) {
  clearTimeout(typing);
  typing = setTimeout(() => { find = v; before = []; list(main).catch(fault); }, 120);
}

function chips(main) {
  keep(main.querySelector('.filters'), filters.map(([name, label]) => button(label, { class: 'chip', 'aria-pressed': String(filter === name), 'data-key': 'f-' + name,
    onclick: () => { filter = name; before = []; chips(main); list(main).catch(fault); } })));
}

export async function refresh(main) {
  await Promise.all([chart(main), before.length === 0 ? list(main) : undefined]);
}

// list fills the page. A search that has not found enough goes on, and shows what it has meanwhile.
async function list(main) {
  const mine = ++turn;
  const box = main.querySelector('.list');
  const said = main.querySelector('.looked');
  const args = { ...filters.find((f) => f[0] === filter)[2], limit: perPage };
  if (find.trim()) args.search = find.trim();
  let rows = [];
  let next = before.at(-1) ?? '';
  let hidden = 0;
  do {
    const page = await call('activity/list', { ...args, before: next, limit: perPage - rows.length });
    if (mine !== turn || !box.isConnected) return;
    rows = rows.concat(page.rows);
    next = page.next ?? '';
    hidden += page.hidden ?? 0;
    if (next && rows.length < perPage) said.textContent = 'Looking through older rows …';
  } while (next && rows.length < perPage);
  said.textContent = hidden ? `${hidden} rows were changed by another hand, and are not shown.` : '';
  keep(box, rows.length === 0 ? empty('Nothing is like that', 'Calls and denials appear here as they happen.')
    : table('Activity', ['Time', 'Outcome', 'Call', 'Credential', 'Run'], rows.map(row)));
  box.dataset.turn = String(mine);
  keep(main.querySelector('.pager'), before.length ? button('Newest', { 'data-key': 'newest', onclick: () => { before = []; list(main).catch(fault); } }) : null,
    next ? button('Older', { 'data-key': 'older', onclick: () => { before.push(next); list(main).then(() => scrollTo(0, 0)).catch(fault); } }) : null);
}

function row(r) {
  const denied = r.class === 'denied';
  return h('tr', { class: denied ? 'refused' : '', 'data-seq': String(r.seq) },
    h('td', null, time(r.time)),
    h('td', null, badge((denied ? 'denied: ' : '') + r.outcome.replaceAll('_', ' '), denied ? 'bad' : kind(r.outcome)), r.count > 1 ? h('span', { class: 'faint' }, ` × ${r.count}`) : null),
    h('td', { class: 'call' }, h('div', null, h('span', { class: 'faint' }, r.tool + ' '), h('code', null, r.operation || r.target || '–')),
      h('div', { class: 'faint' }, r.operation ? r.target : '', r.detail ? ' ' + r.detail : '', r.action ? [' ', id(r.action)] : '')),
    h('td', null, r.credential || h('span', { class: 'faint' }, '–')),
    h('td', null, r.agentRun ? link('/runs/' + r.agentRun, id(r.agentRun)) : h('span', { class: 'faint' }, '–'),
      denied || !known(r.finishedAt) ? null : h('div', { class: 'faint' }, took(r))));
}

const took = (r) => { const ms = new Date(r.finishedAt) - new Date(r.time); return ms < 0 ? '' : ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`; };

const kind = (o) => (o === 'confirmed' || o === 'accepted' ? 'good' : o === 'running' || o === 'redirect_not_followed' || /unconfirmed/.test(o) ? 'warn' : o === 'not_sent' || o === 'cancelled' ? 'info' : 'bad');

// chart shows both counts over time, mirrored at one line, and says the same in words.
async function chart(main) {
  const box = main.querySelector('.chart');
  const [label, seconds, steps] = spans[span];
  const rate = await call('activity/rate', { seconds, steps });
  if (!box?.isConnected) return;
  const sum = (a) => a.reduce((x, y) => x + y, 0);
  const top = Math.max(1, ...rate.calls, ...rate.denied);
  const high = 46;
  const bars = [];
  for (let i = 0; i < steps; i++) {
    const c = Math.ceil((rate.calls[i] / top) * high);
    const d = Math.ceil((rate.denied[i] / top) * high);
    if (c) bars.push(s('rect', { x: i * 10 + 1, y: 50 - c, width: 8, height: c, class: 'calls' }));
    if (d) bars.push(s('rect', { x: i * 10 + 1, y: 52, width: 8, height: d, class: 'denied' }));
  }
  keep(box, h('figcaption', null, h('span', null, h('span', { class: 'key calls' }), `${sum(rate.calls)} calls`, h('span', { class: 'key denied' }), `${sum(rate.denied)} denials`, h('span', { class: 'faint' }, ` in the last ${label}; the highest step is ${top}`)),
    h('span', { class: 'chips', role: 'group', 'aria-label': 'Span of the chart' }, spans.map(([l], i) => button(l, { class: 'chip', 'aria-pressed': String(span === i), 'data-key': 'span-' + i, onclick: () => { span = i; chart(main).catch(fault); } })))),
  s('svg', { viewBox: `0 0 ${steps * 10} 100`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${sum(rate.calls)} calls and ${sum(rate.denied)} denials in the last ${label}` },
    s('line', { x1: 0, x2: steps * 10, y1: 51, y2: 51 }), bars),
  h('div', { class: 'axis faint', 'aria-hidden': 'true' }, h('span', null, time(rate.from)), h('span', null, 'now')));
}
