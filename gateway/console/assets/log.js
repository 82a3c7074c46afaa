// Log: is it whole, and, with a reader's identity, what it says.

import { h, button, badge, head, field, facts, notice, fault, id, time } from './dom.js';
import { call, value } from './net.js';
import { line } from './run.js';

export const title = 'Log';

let identity = ''; // a reader's, in this tab's memory alone
let marks = [];

export async function show(main, _arg, status) {
  marks = [];
  main.replaceChildren(head('Log', 'Sealed to its readers, chained and signed. The gateway appends to it and can\'t read it back.'),
    h('section', { class: 'verify' }), h('section', { class: 'reader panel' }));
  reader(main);
  await verify(main, status);
}

async function verify(main, status) {
  const box = main.querySelector('.verify');
  const v = await call('audit/verify');
  const witnesses = await call('witness/list').catch(() => []);
  if (!box.isConnected) return;
  const good = v.verdict === 'live' || v.verdict === 'intact';
  box.replaceChildren(h('div', { class: 'panel' }, h('div', { class: 'head' }, h('h2', null, badge(good ? 'intact' : v.verdict, good ? 'good' : 'bad'), good ? ' Every frame, chain link and signature holds' : ` ${v.kind}: ${v.detail}`),
    h('div', { class: 'actions' }, button('Verify again', { onclick: () => verify(main, status).catch(fault) }), button('Checkpoint', { onclick: () => checkpoint(box) }))),
  facts([['Records', v.records.toLocaleString()], ['Commits', v.commits.toLocaleString()], ['Fault at', good ? '' : `${v.segment}, record ${v.seq}`, 'alarm'], ['Open intents', String(v.openIntents)],
    ['Anchor', `the vault has seen record ${v.anchor}: a log that ends before it puts the vault into quarantine`], ['Key', id(v.fingerprint)],
    ['Witnesses', witnesses.length === 0 ? 'none: what is cut off the end can only be seen by the anchor, or by a checkpoint that lies elsewhere'
      : witnesses.map((w) => h('div', null, w.name + ' ', h('span', { class: w.error ? 'alarm' : 'faint' }, w.error || `cosigned ${w.size} records, `), w.error ? '' : time(w.at)))]]),
  h('p', { class: 'hint' }, 'This is the gateway\'s own look at its log. A reviewer checks a copy with ', h('code', null, 'sp audit verify'), ' and a pinned key, without the gateway.'),
  h('div', { class: 'note' })));
}

async function checkpoint(box) {
  try {
    const c = await call('audit/checkpoint');
    const pre = h('pre', { class: 'incident', tabindex: '0', 'aria-label': 'Checkpoint' }, c.note);
    box.querySelector('.note').replaceChildren(h('p', { class: 'hint' }, 'Keep it elsewhere: ', h('code', null, 'sp audit verify --against FILE'), ' then sees what was cut off.'), pre,
      button('Copy', { onclick: () => navigator.clipboard.writeText(c.note).then(() => notice('done', 'The checkpoint is copied.'), () => getSelection().selectAllChildren(pre)) }));
  } catch (e) { fault(e); }
}

function reader(main) {
  const box = main.querySelector('.reader');
  if (!identity) {
    const input = h('input', { type: 'password', autocomplete: 'off', spellcheck: 'false', placeholder: 'AGE-SECRET-KEY-…' });
    box.replaceChildren(h('h2', null, 'Read what it says'),
      h('p', { class: 'lead' }, 'Bodies are sealed to readers. An identity given here stays in this tab\'s memory and goes with each request; the gateway sees it, and what it reads by it, for that request, and forgets it. To read without the gateway seeing it, use ', h('code', null, 'sp audit activity --identity FILE'), '.'),
      h('form', { class: 'inline', onsubmit: (e) => { e.preventDefault(); identity = input.value.trim(); input.value = ''; if (identity) { reader(main); } } }, field('Reader\'s identity', input), h('button', { type: 'submit' }, 'Read')));
    return;
  }
  const search = h('input', { type: 'search', placeholder: 'Search every record …', 'aria-label': 'Search the log' });
  const list = h('div', { class: 'lines' });
  box.replaceChildren(h('div', { class: 'head' }, h('h2', null, 'What the log says'), h('div', { class: 'actions' }, button('Forget the identity', { onclick: () => { identity = ''; marks = []; reader(main); } }))),
    h('form', { class: 'bar', onsubmit: (e) => { e.preventDefault(); marks = []; read(); } }, search, h('button', { type: 'submit' }, 'Search')), list);
  const read = async () => {
    list.setAttribute('aria-busy', 'true');
    try {
      const args = { limit: 100 };
      if (search.value.trim()) args.search = search.value.trim();
      if (marks.length) args.before = marks.at(-1);
      const page = await call('audit/read', args, { value: await value(new TextEncoder().encode(identity)) });
      list.replaceChildren(page.lines.length ? h('ol', { class: 'timeline' }, page.lines.map((l) => line(l))) : h('p', { class: 'faint' }, 'No record is like that.'),
        h('div', { class: 'pager' }, marks.length ? button('Newest', { onclick: () => { marks = []; read(); } }) : '', page.more ? button('Older', { onclick: () => { marks.push(page.lines.at(-1).seq); read(); } }) : ''));
    } catch (e) {
      fault(e);
      if (e.error === 'proof_wrong' || e.error === 'proof_required') { identity = ''; reader(main); }
    }
    list.removeAttribute('aria-busy');
  };
  read();
}
