// Pending: the cards that wait for the operator's word.

import { h, button, badge, facts, id, head, empty, notice, fault, time, ago, short, link, known } from './dom.js';
import { call } from './net.js';
import { ask, sits, openSitting, closeSitting, over } from './proof.js';
import { digestOf, words } from './digest.js';

const guard = 400; // ms from a card's appearance, or its moving, in which nothing on it can be pressed
const shown = new Map(); // card id -> its element: a card is laid once

export const title = 'Pending';

export async function show(main) {
  shown.clear();
  const cards = h('div', { class: 'cards' });
  const more = h('div', { class: 'more' });
  const bar = h('div', { class: 'sitting' });
  main.replaceChildren(head('Pending', 'Each card is one question of an agent. A yes gives what the card says, and nothing else.', bar), cards, more);
  await refresh(main);
  focusFirst();
}

export async function refresh(main) {
  const t = await call('approval/table');
  sittingBar(main.querySelector('.sitting'));
  const box = main.querySelector('.cards');
  if (!box) return;
  const now = new Set(t.cards.map((c) => c.id));
  for (const [key, el] of shown) if (!now.has(key)) { leave(el); shown.delete(key); }
  box.querySelector('.empty')?.remove();
  for (const c of t.cards) if (!shown.has(c.id)) {
    const el = await card(c);
    if (shown.has(c.id)) continue;
    shown.set(c.id, el);
    box.append(el);
    arm(el);
  }
  if (t.cards.length === 0) box.append(empty('Nothing waits', 'When an agent asks for something that no grant covers, its card appears here.'));
  if (document.activeElement === document.body) focusFirst();
  behind(main.querySelector('.more'), t.more);
}

// leave takes an answered card away. The keyboard goes on to the next one.
function leave(el) {
  const below = [...document.querySelectorAll('.card')].filter((x) => el.compareDocumentPosition(x) & Node.DOCUMENT_POSITION_FOLLOWING);
  el.remove();
  below.forEach(arm); // they moved to where another card was
  if (document.activeElement === document.body) focusFirst();
}

// arm makes a card's buttons take nothing for a moment: a click may be meant for what was here before.
function arm(el) {
  const all = [...el.querySelectorAll('button[data-key]')];
  all.forEach((b) => { b.disabled = true; });
  clearTimeout(el.armed);
  el.armed = setTimeout(() => {
    if (el.getAttribute('aria-busy')) return;
    all.forEach((b) => { b.disabled = b.dataset.never === ''; });
    if (document.activeElement === document.body) focusFirst();
  }, guard);
}

const focusFirst = () => document.querySelector('.card button.no:enabled')?.focus({ preventScroll: true });

function sittingBar(bar) {
  if (!bar) return;
  const s = sits();
  const key = s ? s.id : 'none';
  if (bar.dataset.of === key) return;
  bar.dataset.of = key;
  bar.replaceChildren(...(s
    ? [h('span', null, 'Sitting until ', time(s.endsAt)), button('End sitting', { onclick: async () => { await closeSitting(); sittingBar(bar); } })]
    : [button('Open a sitting', { onclick: async () => { await openSitting(); sittingBar(bar); } })]));
}

// behind shows the sessions that wait without a card.
function behind(box, chains) {
  box.replaceChildren();
  if (chains.length === 0) return;
  box.append(h('h2', null, 'Waiting behind these cards'), h('ul', null, chains.map((c) => h('li', null,
    h('span', null, c.muted ? `${c.refused ?? 0} refused while muted, from ` : `${c.waiting} more from `, h('code', null, c.text)),
    c.key && !c.muted ? button('Mute', { onclick: () => call('approval/mute', { key: c.key }).catch(fault) }) : null,
    c.key && c.muted ? button('Unmute', { onclick: () => unmute(c.key) }) : null))));
}

async function unmute(key) {
  const proof = await ask('Let this session ask again', undefined, 'Confirm', { path: 'approval/unmute', args: { key } });
  if (proof) await call('approval/unmute', { key }, { proof }).catch(fault);
}

async function card(c) {
  const sound = (await digestOf(c)) === c.cardDigest;
  const said = await words(c.cardDigest);
  const weak = c.agent.identity !== 'strong' || (c.origin?.weak?.length ?? 0) > 0;
  const buttons = [];
  const el = h('article', { class: 'card ' + c.effect, 'aria-labelledby': 't-' + c.id, 'data-card': c.id },
    h('header', null,
      h('div', { class: 'line' }, badge(c.effect), h('span', { class: 'who' }, c.agent.command), h('span', { class: 'clock' }, countdown(c.expiresAt))),
      h('h2', { id: 't-' + c.id, class: 'summary' }, summary(c.summary))),
    c.reason ? h('p', { class: 'claim' }, h('span', null, 'The agent says, and nothing checks it:'), ' “' + c.reason + '”') : null,
    h('div', { class: 'columns' },
      facts([
        ['Credential', c.credential + (c.account ? ` (${c.account})` : '')],
        ['Target', c.target], ['Tool', c.tool], ['Plan', id(c.digest)],
        ['Approved before', past(c)],
        ['Denied before', c.past?.denied?.map((d) => h('div', null, d)), 'alarm'],
        ['Mind', c.gaps?.map((g) => h('div', null, g))],
      ]),
      facts([
        ['Agent', [c.agent.command, h('div', { class: 'faint' }, `pid ${c.agent.processId}, ${c.agent.identity}, ${short(c.agent.exeDigest)}`)], weak ? 'alarm' : ''],
        ['Program', c.origin?.program === 'new' ? 'new: no card of this program was approved before' : c.origin?.program === 'known' ? 'known: a card of it was approved before' : '', c.origin?.program === 'new' ? 'alarm' : ''],
        ['Identity is weak', c.origin?.weak?.map((w) => h('div', null, w)), 'alarm'],
        ['Changed', c.origin?.artifactDrift ? 'the program that asks was exchanged on disk since it started' : '', 'alarm'],
        ['Started by', c.origin?.launchers?.map((l) => h('div', null, `${l.command} `, h('span', { class: 'faint' }, `pid ${l.processId}`)))],
        ['Other connections', c.origin?.others ? `another connection of this run; ${c.origin.others} more live, with what they were given` : '', 'alarm'],
        ['Run', [link('/runs/' + c.agentRun, id(c.agentRun)), known(c.origin?.runOpenedAt) ? h('span', { class: 'faint' }, ' opened ' + ago(c.origin.runOpenedAt)) : null]],
        ['Epoch', id(c.executionEpoch)],
      ])),
    h('div', { class: 'words' }, h('span', { class: 'faint' }, 'Card'), ' ', id(c.id), h('div', null, h('span', { class: 'faint' }, 'Words to compare'), ' ', h('strong', null, said))),
    c.missing ? h('p', null, c.missing) : null,
    sound ? null : h('p', { class: 'alarm' }, 'This card is not the one that its digest names. Deny it.'));
  const form = h('form', { class: 'answer', onsubmit: (e) => e.preventDefault() });
  const scope = c.missing ? null : offers(c, form);
  const deny = button('Deny', { class: 'no', 'data-key': 'deny-' + c.id, onclick: () => send(el, buttons, () => call('approval/deny', { id: c.id }), 'Denied.') });
  const approve = button('Approve', { class: 'yes', 'data-key': 'approve-' + c.id, 'data-never': !sound, onclick: () => yes(el, buttons, c, scope()) });
  const revoke = button('Revoke', { class: 'cut', title: 'Revoke the whole run', 'data-key': 'revoke-' + c.id,
    onclick: () => send(el, buttons, () => call('run/revoke', { id: c.agentRun }), 'The run is revoked.') });
  buttons.push(...[deny, c.missing ? null : approve, revoke].filter(Boolean)); // a target that does not exist takes no yes
  form.append(h('div', { class: 'buttons' }, buttons));
  el.append(form);
  return el;
}

// summary shows the exact action: its first line large, the rest as it stands.
function summary(text) {
  const [first, ...rest] = text.split('\n');
  return [h('span', null, first), rest.length ? h('pre', null, rest.join('\n')) : null];
}

function past(c) {
  if (!known(c.past?.approvedAt)) return '';
  const diff = c.past.diff ?? [];
  return [ago(c.past.approvedAt) + (diff.length ? ', another action, which differs in' : ', the same action'),
    diff.length ? h('pre', { class: 'diff' }, diff.map((d) => h('span', { class: d[0] === '-' ? 'minus' : 'plus' }, d + '\n'))) : null];
}

// offers shows what a yes can give, the least first, and answers with the args of the choice.
function offers(c, form) {
  const name = 'o-' + c.id;
  const uses = h('input', { type: 'number', min: '1', max: '1000000', inputmode: 'numeric', placeholder: 'any', 'aria-label': 'Uses at most' });
  const until = h('select', { 'aria-label': 'Until' }, [['', 'until the run ends'], ['15', 'for 15 minutes'], ['60', 'for an hour'], ['480', 'for 8 hours']]
    .map(([v, t]) => h('option', { value: v }, t)));
  const list = (c.offers ?? []).map((o, i) => h('label', { class: 'offer' },
    h('input', { type: 'radio', name, value: String(i), checked: i === 0 }),
    h('span', null, o.gives, o.accept ? h('span', { class: 'alarm' }, ' You accept ' + o.accept + '.') : null)));
  form.append(h('fieldset', null, h('legend', null, 'A yes gives'), list,
    c.offers?.some((o) => o.scope === 'run') ? h('div', { class: 'narrow' }, 'Run-wide, narrowed: ', uses, ' uses, ', until) : null));
  return () => {
    const o = c.offers[Number(form.querySelector(`input[name="${name}"]:checked`)?.value ?? 0)];
    const args = { id: c.id, cardDigest: c.cardDigest, scope: o.scope };
    if (o.accept) args.acceptWeak = true;
    if (o.scope === 'run' && uses.value) args.uses = Number(uses.value);
    if (o.scope === 'run' && until.value) args.until = new Date(Date.now() + Number(until.value) * 60000).toISOString();
    return args;
  };
}

async function yes(el, buttons, c, args) {
  const s = sits();
  let proof = s && c.confirm !== 'passkey' ? { kind: 'sitting', value: s.id } : undefined;
  proof ??= await ask('Approve this card', [h('p', null, c.summary.split('\n')[0]), h('p', { class: 'faint' }, 'with ' + c.credential)], 'Approve', { path: 'approval/grant', args }, c.confirm === 'passkey');
  if (!proof) return;
  await send(el, buttons, () => call('approval/grant', args, { proof }), 'Approved.', proof.kind === 'sitting');
}

// send puts one answer. The card stays until the gateway has taken it off the table.
async function send(el, buttons, f, done, sat) {
  buttons.forEach((b) => { b.disabled = true; });
  el.setAttribute('aria-busy', 'true');
  try {
    await f();
    notice('done', done);
    shown.delete(el.dataset.card);
    leave(el);
  } catch (e) {
    fault(e);
    if (sat && (e.error === 'proof_required' || e.error === 'operator_refused')) over();
    el.removeAttribute('aria-busy');
    buttons.forEach((b) => { b.disabled = b.dataset.never === ''; });
  }
}

// countdown is how long a card still waits.
function countdown(until) {
  const el = h('span', { 'data-until': until });
  tick(el);
  return el;
}

function tick(el) {
  const left = Math.max(0, Math.round((new Date(el.dataset.until) - Date.now()) / 1000));
  el.textContent = left > 0 ? `${left} s left` : 'time is over';
  el.classList.toggle('soon', left < 30);
}

setInterval(() => document.querySelectorAll('[data-until]').forEach(tick), 1000);
