// Credentials: what there is of each but its value, which never comes back from the vault.

import { h, button, badge, head, empty, field, facts, notice, fault, keep, many } from './dom.js';
import { call, value as salted } from './net.js';
import { form, text, area, choice, check, secret, lines, put, prove, remove } from './forms.js';

export const title = 'Credentials';
export const pause = 1500;

const kinds = [['bearer', 'bearer token'], ['basic', 'basic (username and password)'], ['header', 'header'], ['query', 'query parameter'], ['cookie', 'cookie'], ['path', 'path segment'],
  ['sigv4', 'AWS Signature V4'], ['oauth2', 'OAuth 2'], ['github-app', 'GitHub App'], ['mtls', 'client certificate'], ['ssh-key', 'SSH key'], ['ssh-password', 'SSH password'], ['ssh-ca', 'SSH certificate authority']];
const confirms = [['never', 'never: quiet inside a grant'], ['click', 'click: a person on each use'], ['passkey', 'passkey: a passkey on each use']];
// Which further settings a kind has: [name, label, hint].
const extras = {
  basic: [['username', 'Username']], header: [['header', 'Header', 'Authorization, if empty'], ['format', 'Format', 'like: token %s']], query: [['param', 'Parameter']], cookie: [['param', 'Cookie name']],
  path: [['param', 'Segment'], ['format', 'Format']], sigv4: [['region', 'Region'], ['service', 'Service']],
  oauth2: [['tokenUrl', 'Token URL'], ['clientId', 'Client id'], ['grant', 'Grant', 'client-credentials or refresh']], 'github-app': [['appId', 'App id'], ['installation', 'Installation']],
};

let seen = '';

export async function show(main) {
  seen = '';
  main.replaceChildren(head('Credentials', 'Sealed in the vault. The gateway uses them itself; no page, agent or command ever gets a value back.',
    button('Add a credential', { class: 'yes', onclick: () => add(main) })), h('div', { class: 'boxes' }));
  await refresh(main);
}

export async function refresh(main) {
  const all = await call('credential/list');
  const key = JSON.stringify(all);
  const box = main.querySelector('.boxes');
  if (key === seen || !box) return;
  seen = key;
  keep(box, all.length === 0 ? empty('No credential yet', 'Add one: its value goes into the vault, and rules say what it may be used for.') : all.map((c) => one(main, c)));
}

function one(main, c) {
  const again = () => { seen = ''; refresh(main).catch(fault); };
  return h('article', { class: 'panel', 'aria-label': c.name },
    h('div', { class: 'head' }, h('div', null, h('h2', null, c.name), h('p', { class: 'line' }, badge(c.kind, 'info'), ' ', c.account || '', ' ', h('span', { class: 'faint' }, `version ${c.version}`))),
      h('div', { class: 'actions' },
        button('Test', { 'data-key': 'test-' + c.name, onclick: (e) => test(c, e.currentTarget) }),
        button('Rules', { 'data-key': 'rules-' + c.name, onclick: () => rules(c, again) }),
        button('Rotate', { 'data-key': 'rotate-' + c.name, onclick: () => rotate(c, again) }),
        button('Remove', { class: 'cut', 'data-key': 'remove-' + c.name, onclick: () => remove(`Remove ${c.name}`, 'Its value is gone for good, and every grant that names it ends.', 'credential/remove', c.name, (o) => {
          notice('done', `Removed. ${many(o.grants.length, 'grant')} ended.`); again();
        }) }))),
    facts([['May be used for', c.rules.map((r) => h('div', null, h('code', null, r)))], ['Asks a person', c.confirm === 'never' ? 'once for a grant' : c.confirm + ', on each use'],
      ['Answers are scrubbed', c.scrub === 'off' ? 'no' : 'yes', c.scrub === 'off' ? 'alarm' : '']]));
}

async function test(c, btn) {
  btn.disabled = true;
  try {
    const t = await call('credential/test', { name: c.name });
    notice(t.works ? 'done' : 'fault', `${c.name}: ${t.works ? 'works' : 'does not work'}, ${t.operation}: ${t.outcome}${t.status ? ', status ' + t.status : ''}${t.detail ? ', ' + t.detail : ''}`);
  } catch (e) { fault(e); }
  btn.disabled = false;
}

async function add(main) {
  const presets = await call('credential/presets').catch(() => []);
  const preset = choice([['', 'none: by its own rules'], ...presets.map((p) => [p.name, p.name])], '');
  const name = text({ required: true, pattern: '[a-z0-9][a-z0-9._\\-]*', maxlength: '64' });
  const kind = choice(kinds, 'bearer');
  const account = text();
  const allow = area({ placeholder: 'GET,POST https://api.example.com/v1/**' });
  const confirm = choice(confirms, 'never');
  const network = text({ placeholder: '10.0.0.0/8' });
  const [http, httpBox] = check('Also http://, in the clear');
  const passphrase = text({ type: 'password', autocomplete: 'off' });
  const more = h('div', { class: 'grid2' });
  const value = secret('Value', 'It is sent once, to the gateway on this machine. A token, a password, or the text of a key file.');
  const about = h('p', { class: 'hint' });
  const own = {};
  const forKind = () => {
    more.replaceChildren();
    for (const k of Object.keys(own)) delete own[k];
    for (const [k, label, hint] of extras[kind.value] ?? []) { own[k] = text(); more.append(field(label, own[k], hint)); }
    if (kind.value.startsWith('ssh-') && kind.value !== 'ssh-password') more.append(field('Passphrase of the key file', passphrase, 'if it is encrypted'));
  };
  kind.addEventListener('change', forKind);
  preset.addEventListener('change', () => {
    const p = presets.find((x) => x.name === preset.value);
    about.textContent = p ? [p.about, p.value].filter(Boolean).join(' ') : '';
    if (!p) return;
    kind.value = p.kind;
    confirm.value = p.confirm || 'never';
    allow.value = (p.rules.allow ?? []).join('\n');
    if (name.value === '') name.value = p.name;
    forKind();
  });
  forKind();
  form('Add a credential', [h('div', { class: 'grid2' }, field('Preset', preset), field('Name', name)), about, h('div', { class: 'grid2' }, field('Kind', kind), field('Account', account, 'a label, shown on cards')),
    more, field('May be used for', allow, 'One rule a line: METHODS ORIGIN/PATH. * is one segment, ** the rest. SSH credentials need none.'),
    h('div', { class: 'grid2' }, field('Asks a person', confirm), field('Private networks', network, 'needed for loopback and private addresses')), httpBox, value.field], 'Add', async () => {
    const rules = {};
    const p = presets.find((x) => x.name === preset.value);
    if (!p || lines(allow.value).join('\n') !== (p.rules.allow ?? []).join('\n')) put(rules, 'allow', lines(allow.value));
    put(rules, 'allowNetwork', network.value.split(/[ ,]+/).filter(Boolean));
    put(rules, 'allowHttp', http.checked);
    for (const [k, input] of Object.entries(own)) put(rules, k, input.value.trim());
    const args = { name: name.value.trim(), kind: kind.value, confirm: confirm.value };
    put(args, 'preset', preset.value);
    put(args, 'account', account.value.trim());
    if (Object.keys(rules).length) args.rules = rules;
    const v = await withPassphrase(await value.take(), passphrase, args);
    const c = await prove(`Add ${args.name}`, 'The passphrase proves that a person adds it.', 'credential/add', args, v);
    if (!c) return false;
    value.clear();
    notice('done', `${c.name} is in the vault.`);
    seen = '';
    refresh(main).catch(fault);
    return true;
  });
}

// withPassphrase puts a key file's passphrase behind it, as its last bytes.
async function withPassphrase(v, input, args) {
  if (!input.value || !input.isConnected) return v;
  const tail = new TextEncoder().encode(input.value);
  const both = new Uint8Array(v.bytes.length + tail.length);
  both.set(v.bytes);
  both.set(tail, v.bytes.length);
  args.passphraseLength = tail.length;
  return salted(both);
}

function rotate(c, again) {
  const value = secret('New value', 'Every grant that names the credential ends: its next use asks again.');
  const passphrase = text({ type: 'password', autocomplete: 'off' });
  form(`Rotate ${c.name}`, [value.field, c.kind === 'ssh-key' || c.kind === 'ssh-ca' ? field('Passphrase of the key file', passphrase, 'if it is encrypted') : null], 'Rotate', async () => {
    const args = { name: c.name };
    const v = await withPassphrase(await value.take(), passphrase, args);
    const out = await prove(`Rotate ${c.name}`, 'The old value is gone for good.', 'credential/rotate', args, v);
    if (!out) return false;
    value.clear();
    notice('done', `${c.name} is rotated; ${many(out.grants.length, 'grant')} ended.`);
    again();
    return true;
  });
}

async function rules(c, again) {
  let shown;
  try { shown = await call('credential/show', { name: c.name }); } catch (e) { fault(e); return; }
  const was = shown.settings ?? {};
  const account = text({ value: shown.account ?? '' });
  const confirm = choice(confirms, shown.confirm);
  const allow = area();
  allow.value = (was.allow ?? []).join('\n');
  const header = area();
  header.value = (was.allowHeader ?? []).join('\n');
  const network = text({ value: (was.allowNetwork ?? []).join(' ') });
  const http = !c.kind.startsWith('ssh-');
  form(`Rules of ${c.name}`, [h('div', { class: 'grid2' }, field('Account', account), field('Asks a person', confirm)),
    http ? [field('May be used for', allow, 'One rule a line.'), field('Headers an agent may set', header, 'NAME or NAME=PATTERN, one a line'), field('Private networks', network)] : null,
    h('p', { class: 'hint' }, 'Every grant that names the credential ends. Other settings stay as they are.')], 'Change', async () => {
    const args = { name: c.name, version: shown.version };
    put(args, 'account', account.value.trim());
    put(args, 'confirm', confirm.value);
    put(args, 'principal', shown.principal);
    if (http) {
      const r = { ...was };
      for (const [k, v] of [['allow', lines(allow.value)], ['allowHeader', lines(header.value)], ['allowNetwork', network.value.split(/[ ,]+/).filter(Boolean)]]) { delete r[k]; put(r, k, v); }
      args.rules = r;
    }
    const out = await prove(`Change ${c.name}`, h('pre', null, lines(allow.value).join('\n')), 'credential/rebind', args);
    if (!out) return false;
    notice('done', `${many(out.changes.length, 'setting')} changed; ${many(out.grants.length, 'grant')} ended.`);
    again();
    return true;
  });
}
