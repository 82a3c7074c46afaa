// Run: one run's standing, its containment step by step, its record, and everything that is told of it.

import { h, button, badge, id, head, table, time, known, facts, notice, fault, keep, empty } from './dom.js';
import { call } from './net.js';
import { proved } from './proof.js';
import { revoke } from './runs.js';
import { recordText } from './record.js';

export const title = 'Run';
export const pause = 500;

let of = '';
let which = 'both';
let pages = []; // before-marks of the pages up to the one that is shown; [] is the newest

export async function show(main, run) {
  of = run;
  pages = [];
  main.replaceChildren(h('div', { class: 'top-of-run' }), h('section', { class: 'contain' }), h('section', { class: 'record' }), h('section', { class: 'told' }));
  await refresh(main);
  if (location.search === '?contain') {
    history.replaceState(null, '', location.pathname);
    contain(main);
  }
}

export async function refresh(main) {
  const run = of;
  const [r, grants, live] = await Promise.all([call('run/show', { id: run }), call('grant/list'), call('action/list', { agentRun: run })]);
  if (run !== of || !main.querySelector('.top-of-run')) return;
  keep(main.querySelector('.top-of-run'), ...standing(main, r, grants.filter((g) => g.agentRun === run), live.filter((a) => a.state !== 'done')));
  await told(main);
}

function standing(main, r, grants, live) {
  const c = r.callClasses;
  return [
    head(r.agent.command || 'A run', [badge(r.state), ' ', id(r.id)],
      r.state === 'revoked' ? null : button('Revoke', { class: 'cut', 'data-key': 'revoke', onclick: async (e) => { await revoke(r.id, e.currentTarget); refresh(main).catch(fault); } }),
      button('Contain', { class: 'cut', 'data-key': 'contain', onclick: () => contain(main) }),
      button('Incident record', { 'data-key': 'record', onclick: () => record(main) })),
    h('div', { class: 'tiles' },
      tile('Client unavailable', r.clientUnavailableAt, 'no loss was seen'),
      tile('Last action started', r.lastActionStartedAt, 'no call yet'),
      tile('Authority revoked', r.revokedAt, 'not revoked')),
    known(r.unresponsiveSince) ? h('p', { class: 'alarm' }, 'The client lives and does nothing since ', time(r.unresponsiveSince), '.') : null,
    h('div', { class: 'split' },
      h('div', { class: 'panel' }, h('h2', null, 'Process'), facts([
        ['Command', h('code', null, r.agent.command)], ['Process', `pid ${r.agent.processId}`],
        ['Identity', r.agent.identity, r.agent.identity === 'strong' ? '' : 'alarm'], ['Program', h('code', null, r.agent.exeDigest || 'unknown')],
        ['Opened', time(r.openedAt)],
        ['Reparented', r.reparented?.map((p) => h('div', null, `pid ${p.processId}: its parent ${p.parent} ended, now below ${p.ppid}`))],
      ]), h('div', { class: 'chain' })),
      h('div', { class: 'panel' }, h('h2', null, 'Calls'), c ? facts([
        ['Before the loss', String(c.before)], ['Uncertain', String(c.uncertain), c.uncertain ? 'alarm' : ''],
        ['After revocation', String(c.after), c.after ? 'alarm' : ''], ['Refused since', String(c.refused)],
      ]) : h('p', { class: 'faint' }, 'They are classed while the run is in memory; its record classes them too.'),
      h('h3', null, 'Under way'), live.length === 0 ? h('p', { class: 'faint' }, 'Nothing.') : h('ul', { class: 'plain' }, live.map((a) => h('li', null,
        badge(a.state), ' ', a.tool, ' ', a.target, ' ', id(a.id), ' ',
        button('Cancel', { class: 'small', 'data-key': 'cancel-' + a.id, onclick: () => call('action/cancel', { id: a.id }).catch(fault) })))))),
    h('div', { class: 'panel' }, h('h2', null, 'Epochs and grants'),
      table('Epochs', ['Epoch', 'Server', 'State', 'Process', 'May use', ''], r.epochs.map((e) => h('tr', null,
        h('td', null, id(e.id)), h('td', null, e.serverLabel || h('span', { class: 'faint' }, 'the agent itself')), h('td', null, badge(e.state)), h('td', { class: 'num' }, String(e.processId)),
        h('td', null, grants.filter((g) => g.executionEpoch === e.id).map((g) => h('div', null,
          `${g.toolScope.join(', ')} with ${g.credentialScope.join(', ')}, ${g.expiresWhen === 'agent-run-ends' ? 'until the run ends' : g.expiresWhen} `,
          button('Revoke grant', { class: 'small cut', 'data-key': g.id, onclick: () => call('grant/revoke', { id: g.id }).then(() => refresh(main)).catch(fault) })))),
        h('td', { class: 'do' }, e.state === 'ended' || r.state === 'revoked' ? null
          : button('Revoke epoch', { class: 'small cut', 'data-key': e.id, onclick: () => call('epoch/revoke', { id: e.id }).then(() => refresh(main)).catch(fault) }))))),
      r.endedGrants?.length ? h('p', { class: 'faint' }, 'Grants that are over: ', r.endedGrants.map((g) => `${g.id} (${g.why})`).join(', ')) : null),
  ];
}

const tile = (name, t, none) => h('div', { class: 'tile' }, h('span', null, name), known(t) ? h('strong', null, time(t)) : h('strong', { class: 'faint' }, none));

// contain walks the order before any signal. Each step is an event; what was done is shown as it comes.
async function contain(main) {
  const box = main.querySelector('.contain');
  const steps = h('ol', { class: 'steps', 'aria-live': 'polite' });
  box.replaceChildren(h('div', { class: 'panel' }, h('h2', null, 'Containment'), h('p', { class: 'faint' },
    'Look, review the calls, revoke, list remote work, prove the denial. Nothing is signalled in this part.'), steps));
  const from = Date.now() - 2000;
  const seen = new Set();
  const step = (l) => {
    if (seen.has(l.seq)) return;
    seen.add(l.seq);
    steps.append(h('li', null, time(l.time), ' ', h('strong', null, l.type.replaceAll('_', ' ')), ' ', h('span', { class: 'faint' }, 'record ' + l.seq), h('span', { class: 'what', title: l.what }, l.what)));
  };
  let walking = true;
  const watch = (async () => { // the walk's events, as the log takes them
    while (walking) {
      const t = await call('run/timeline', { id: of, limit: 50 }).catch(() => undefined);
      for (const l of (t?.lines ?? []).reverse()) if (new Date(l.time) >= from && walk.has(l.type)) step(l);
      await new Promise((r) => { setTimeout(r, 150); });
    }
  })();
  try {
    const c = await call('run/contain', { id: of });
    walking = false;
    await watch;
    const t = await call('run/timeline', { id: of, limit: 100 });
    const mine = new Set(c.steps.map((x) => x.seq));
    for (const l of t.lines.reverse()) if (mine.has(l.seq)) step(l);
    verdict(main, box.firstChild, c);
  } catch (e) { fault(e); } finally { walking = false; }
}

const walk = new Set(['containment_started', 'process_observed', 'actions_reviewed', 'run_revoked', 'remote_work_listed', 'denial_proved',
  'process_signalled', 'process_checked', 'containment_finished']);

function verdict(main, panel, c) {
  panel.querySelector('.verdict')?.remove();
  const alive = c.processes.filter((p) => p.state !== 'exited');
  const pick = alive.map((p) => h('label', { class: 'offer' }, h('input', { type: 'checkbox', value: String(p.processId) }),
    h('span', null, `pid ${p.processId} `, badge(p.state), ` ${p.role}: `, h('code', null, p.command),
      p.strangers?.length ? h('span', { class: 'alarm' }, ` Its group has strangers: ${p.strangers.join(', ')}.`) : null)));
  const kill = h('input', { type: 'checkbox' });
  const end = h('div', { class: 'verdict' },
    h('p', null, badge(c.verdict === 'contained' ? 'contained' : 'not contained', c.verdict === 'contained' ? 'good' : 'bad'), ' ',
      c.denial.method === 'observed' ? `The run's own attempt was refused (${c.denial.reason}), record ${c.denial.record}.` : c.denial.method ? `The gateway asked itself and was refused (${c.denial.reason}).` : ''),
    c.missing?.length ? h('ul', { class: 'alarm plain' }, c.missing.map((m) => h('li', null, m))) : null,
    facts([['Had left before', c.left.map((a) => h('div', null, `${a.tool} ${a.target} `, badge(a.outcome || a.state), ' ', id(a.id)))],
      ['Uncertain', c.uncertainActions.map((a) => h('div', null, `${a.tool} ${a.target} `, badge(a.outcome || a.state), ' ', id(a.id)))],
      ['Goes on far away', c.remote.map((a) => h('div', null, `${a.tool} ${a.target} ${a.jobId ?? ''} `, id(a.id)))],
      ['Rotate', c.rotate.map((x) => h('div', null, x))]]),
    alive.length ? h('form', { onsubmit: (e) => e.preventDefault() }, h('fieldset', null, h('legend', null, 'Processes that live'), pick),
      h('label', { class: 'offer' }, kill, h('span', null, 'KILL those that do not end within two seconds; their clean-up may be incomplete')),
      h('div', { class: 'buttons' }, button('Terminate', { class: 'cut', onclick: async () => {
        const chosen = alive.filter((p, i) => pick[i].querySelector('input').checked).map((p) => ({ processId: p.processId, key: p.key }));
        if (chosen.length === 0) { notice('fault', 'Choose the processes to end.'); return; }
        try {
          const args = { id: of, processes: chosen };
          if (kill.checked) args.kill = true;
          const again = await proved('Signal these processes', h('p', null, chosen.map((p) => 'pid ' + p.processId).join(', ')), 'run/terminate', args);
          if (again) verdict(main, panel, again);
        } catch (e) { fault(e); }
      } }))) : null);
  panel.append(end);
}

// chain shows the launchers, as they were when an epoch of the run was opened.
function chain(main, lines) {
  const opened = lines.find((l) => l.type === 'epoch_opened' && l.event.launchers?.length);
  const box = main.querySelector('.chain');
  if (!opened || !box) return;
  keep(box, h('h3', null, 'Launcher chain'), h('ol', { class: 'plain' }, opened.event.launchers.map((p) => h('li', null, h('code', null, p.command || p.exe), h('span', { class: 'faint' }, ` pid ${p.processId ?? p.pid}`)))));
}

async function record(main) {
  const box = main.querySelector('.record');
  try {
    const doc = await call('run/incident', { id: of });
    const text = doc.records.map((r) => recordText(r, doc)).join('\n\n');
    const pre = h('pre', { class: 'incident', tabindex: '0', 'aria-label': 'Incident record' }, text);
    box.replaceChildren(h('div', { class: 'panel' }, h('div', { class: 'head' }, h('h2', null, 'Incident record'),
      h('div', { class: 'actions' }, button('Copy', { class: 'yes', 'data-key': 'copy', onclick: () => copy(text, pre) }), button('Close', { onclick: () => box.replaceChildren() }))),
    pre, h('p', { class: 'hint' }, 'From the gateway\'s rows. `sp incident ' + of + ' --identity FILE` derives it from the log anew and adds the outcome of `sp audit verify`.')));
    box.querySelector('button').focus();
  } catch (e) { fault(e); }
}

async function copy(text, pre) {
  try {
    await navigator.clipboard.writeText(text);
    notice('done', 'The incident record is copied.');
  } catch {
    getSelection().selectAllChildren(pre);
    notice('fault', 'The browser does not let the page copy. The text is selected: copy it with the keyboard.');
  }
}

async function told(main) {
  const box = main.querySelector('.told');
  const t = await call('run/timeline', { id: of, before: pages.at(-1) ?? '', limit: 60 });
  if (!box.isConnected) return;
  chain(main, t.lines);
  const lines = t.lines.filter((l) => which === 'both' || l.log === which);
  const chip = (name, label) => button(label, { class: 'chip', 'aria-pressed': String(which === name), 'data-key': 'log-' + name, onclick: () => { which = name; told(main).catch(fault); } });
  const open = new Set([...box.querySelectorAll('details[open]')].map((d) => d.dataset.seq));
  keep(box, h('div', { class: 'bar' }, h('h2', null, 'Timeline'), h('div', { class: 'chips', role: 'group', 'aria-label': 'Log' }, chip('both', 'Both'), chip('sessions', 'Sessions'), chip('activity', 'Activity'))),
    t.hidden ? h('p', { class: 'alarm' }, `${t.hidden} rows can't be read here: the vault is locked, or they were changed. The log has them.`) : null,
    lines.length === 0 ? empty('Nothing is told', 'Rows are kept for thirty days; the log has everything.') : h('ol', { class: 'timeline' }, lines.map((l) => line(l, open))),
    h('div', { class: 'pager' }, pages.length ? button('Newest', { 'data-key': 'newest', onclick: () => { pages = []; told(main).catch(fault); } }) : null,
      t.next ? button('Older', { 'data-key': 'older', onclick: () => { pages.push(t.next); told(main).catch(fault); } }) : null));
}

export const line = (l, open) => h('li', { class: l.log },
  h('details', { 'data-seq': String(l.seq), open: open?.has(String(l.seq)) },
    h('summary', { 'data-key': 'seq-' + l.seq }, time(l.time), badge(l.type.replaceAll('_', ' '), kind(l.type)), h('span', { class: 'what' }, l.what)),
    h('pre', null, JSON.stringify(l.event, null, 2))));

const kind = (type) => (/denied|revoked|refused|quarantined|unresolved|forged|terminate|signal|broken/.test(type) ? 'bad'
  : /granted|issued|confirmed/.test(type) ? 'good' : /orphan|replaced|unresponsive|expired|pending|cancel/.test(type) ? 'warn' : 'info');
