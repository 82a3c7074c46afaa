// The console: which page is shown, and when it is shown anew.

import { h, button, notice, fault, empty, badge } from './dom.js';
import { open, speaks, follow, onEnd, call } from './net.js';
import { ask } from './proof.js';
import * as pending from './pending.js';
import * as runs from './runs.js';
import * as run from './run.js';
import * as activity from './activity.js';
import * as credentials from './credentials.js';
import * as hosts from './hosts.js';
import * as log from './log.js';
import * as settings from './settings.js';

const pages = { pending, runs, activity, credentials, hosts, log, settings };
const main = document.getElementById('main');
let page; // the module that is shown
let status;

function where() {
  const [, name = '', rest] = location.pathname.split('/');
  if (name === 'runs' && rest) return [run, decodeURIComponent(rest), 'runs'];
  return [pages[name] ?? pages.pending, undefined, pages[name] ? name : 'pending'];
}

async function show() {
  const [module, arg, name] = where();
  document.title = `${module.title} · Sallyport`;
  for (const a of document.querySelectorAll('nav a')) {
    if (a.getAttribute('href') === '/' + name) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  page = undefined;
  main.replaceChildren();
  main.setAttribute('aria-busy', 'true');
  try {
    await module.show(main, arg, status);
    if (where()[0] === module) page = module;
  } catch (e) { failed(e); }
  main.removeAttribute('aria-busy');
}

function failed(e) {
  if (e.error === 'vault_locked') main.replaceChildren(locked());
  else { fault(e); console.error(e); }
}

function locked() {
  return h('div', { class: 'empty' }, h('h2', null, 'The vault is locked'),
    h('p', null, 'Every action of every agent is refused until it is unlocked.'), button('Unlock', { class: 'yes', onclick: unlock }));
}

async function unlock() {
  const proof = await ask('Unlock the vault', 'The passphrase opens its slot of the vault.', 'Unlock');
  if (!proof) return;
  try {
    await call('vault/unlock', {}, { proof });
    notice('done', 'The vault is unlocked.');
    await show();
  } catch (e) { fault(e); }
}

async function lock() {
  try {
    await call('vault/lock');
    notice('done', 'The vault is locked. Every grant is void.');
    await show();
  } catch (e) { fault(e); }
}

// refresh shows the page's newest state, at most once at a time and not more often than it says.
let busy = false;
let again = false;
async function refresh() {
  if (!page?.refresh) return;
  if (busy) { again = true; return; }
  busy = true;
  const module = page;
  try { await module.refresh(main, status); } catch (e) { if (page === module) failed(e); }
  await new Promise((r) => { setTimeout(r, module.pause ?? 0); });
  busy = false;
  if (again) { again = false; refresh(); }
}

function onStatus(s) {
  const was = status;
  status = s;
  const n = document.getElementById('pending-count');
  n.hidden = s.pendingApprovals === 0;
  n.textContent = s.pendingApprovals;
  n.setAttribute('aria-label', s.pendingApprovals + ' waiting');
  const box = document.getElementById('state');
  const key = s.vault + (s.unproved ?? 0);
  if (box.dataset.of !== key) {
    box.dataset.of = key;
    box.replaceChildren(...[s.unproved ? h('span', { class: 'alarm' }, `${s.unproved} unproved verbs in a minute`) : null, badge('vault ' + s.vault, s.vault),
      s.vault === 'ready' ? button('Lock', { onclick: lock, title: 'Lock the vault: everything is refused from then on' }) : null,
      s.vault === 'locked' ? button('Unlock', { onclick: unlock }) : null].filter(Boolean));
  }
  document.body.classList.remove('lost');
  if (was && was.vault !== s.vault) show();
  else refresh();
}

function ended() {
  page = undefined;
  document.body.classList.add('ended');
  document.getElementById('state').replaceChildren();
  const lost = empty('This tab has no session', 'It ends when the tab is loaded anew or the gateway restarts. Open the console anew:');
  lost.append(h('pre', null, 'sp console'));
  main.replaceChildren(lost);
}

// Links between pages keep the tab, and with it the session.
document.addEventListener('click', (e) => {
  const a = e.target.closest?.('a[data-page]');
  if (!a || e.ctrlKey || e.metaKey || e.shiftKey || e.button !== 0 || !speaks()) return;
  e.preventDefault();
  if (a.pathname + a.search !== location.pathname + location.search) history.pushState(null, '', a.pathname + a.search);
  show().then(() => { if (!main.contains(document.activeElement)) main.focus({ preventScroll: true }); });
  scrollTo(0, 0);
});
addEventListener('popstate', () => { if (speaks()) show(); });

onEnd(ended);
if (await open().catch(() => false)) {
  await show();
  follow(onStatus, () => document.body.classList.add('lost'));
} else {
  ended();
}
