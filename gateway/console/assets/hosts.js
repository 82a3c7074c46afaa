// Hosts: where SSH may go, by which pinned key, and which commands may run there.

import { h, button, badge, head, empty, field, facts, notice, fault, keep, many } from './dom.js';
import { call } from './net.js';
import { form, text, area, choice, check, lines, put, prove, remove } from './forms.js';

export const title = 'Hosts';
export const pause = 1500;

let seen = '';

export async function show(main) {
  seen = '';
  main.replaceChildren(head('Hosts', 'An agent names a host and never an address, user or option. Its key is pinned: another one is refused.',
    button('Add a host', { class: 'yes', onclick: () => add(main) })), h('div', { class: 'boxes' }));
  await refresh(main);
}

export async function refresh(main) {
  const all = await call('target/list');
  const key = JSON.stringify(all);
  const box = main.querySelector('.boxes');
  if (key === seen || !box) return;
  seen = key;
  const again = () => { seen = ''; refresh(main).catch(fault); };
  keep(box, all.length === 0 ? empty('No host yet', 'Add one with the SSH credential that logs in there, and the commands that may run.') : all.map((t) => h('article', { class: 'panel', 'aria-label': t.name },
    h('div', { class: 'head' }, h('div', null, h('h2', null, t.name), h('p', { class: 'line' }, h('code', null, `${t.user}@${t.address}`), t.jump ? ` through ${t.jump}` : '', ' ', badge(t.shell, 'info'))),
      h('div', { class: 'actions' }, button('Remove', { class: 'cut', 'data-key': 'remove-' + t.name, onclick: () => remove(`Remove ${t.name}`, 'Every grant for it ends.', 'target/remove', t.name, (o) => {
        notice('done', `Removed. ${many(o.grants.length, 'grant')} ended.`); again();
      }) }))),
    facts([['Credential', t.credential], ['Pinned keys', t.hostKeys.map((k) => h('div', null, h('code', null, k)))], ['May run', t.rules.map((r) => h('div', null, h('code', null, r)))]]))));
}

async function add(main) {
  let creds;
  try { creds = (await call('credential/list')).filter((c) => c.kind.startsWith('ssh-')); } catch (e) { fault(e); return; }
  const name = text({ required: true });
  const address = text({ required: true, placeholder: 'host.example:22' });
  const user = text({ required: true });
  const credential = choice(creds.map((c) => [c.name, `${c.name} (${c.kind})`]), '');
  const jump = text();
  const keys = area({ placeholder: 'host.example ssh-ed25519 AAAA…' });
  const [enrol, enrolBox] = check('Ask the host for its key now, and pin what it says');
  const argv = area({ placeholder: '["systemctl","status","*"]' });
  const network = text({ placeholder: '10.0.0.0/8' });
  const [shell, shellBox] = check('Also raw strings for its shell, each of which asks');
  form('Add a host', [creds.length ? null : h('p', { class: 'alarm' }, 'There is no SSH credential yet: add one first.'),
    h('div', { class: 'grid2' }, field('Name', name), field('Address', address), field('User', user), field('Credential', credential), field('Through host', jump, 'a host of this list'), field('Private networks', network)),
    field('Its public key', keys, 'A .pub file or lines of known_hosts, from a source you trust.'), enrolBox,
    field('May run', argv, 'One command a line, as a JSON list of words. "*" is any one word.'), shellBox], 'Add', async () => {
    const args = { name: name.value.trim(), address: address.value.trim(), user: user.value.trim(), credential: credential.value };
    put(args, 'hostKey', keys.value.trim());
    put(args, 'enrol', enrol.checked);
    put(args, 'jump', jump.value.trim());
    put(args, 'allowNetwork', network.value.split(/[ ,]+/).filter(Boolean));
    put(args, 'allowArgv', lines(argv.value).map((l) => { try { return JSON.parse(l); } catch { throw new Error('Not a JSON list of words: ' + l); } }));
    put(args, 'allowShell', shell.checked);
    const t = await prove(`Add ${args.name}`, h('code', null, `${args.user}@${args.address}`), 'target/add', args);
    if (!t) return false;
    notice('done', `${t.name} is added, with ${t.hostKeys.join(', ')}.`);
    seen = '';
    refresh(main).catch(fault);
    return true;
  });
}
