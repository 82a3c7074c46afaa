// Elements from values. Text of others is only ever text: there is no way from here to markup.

// h makes an element: attributes (on… are listeners, booleans are present or absent), then children.
export function h(tag, attrs, ...children) {
  const el = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs ?? {})) {
    if (v === undefined || v === null || v === false) continue;
    if (k.startsWith('on')) el.addEventListener(k.slice(2), v);
    else el.setAttribute(k, v === true ? '' : String(v));
  }
  add(el, children);
  return el;
}

function add(el, children) {
  for (const c of children) {
    if (Array.isArray(c)) add(el, c);
    else if (c !== undefined && c !== null && c !== false) el.append(c);
  }
}

const svgNS = 'http://www.w3.org/2000/svg';

// s makes an SVG element.
export function s(tag, attrs, ...children) {
  const el = document.createElementNS(svgNS, tag);
  for (const [k, v] of Object.entries(attrs ?? {})) if (v !== undefined && v !== false) el.setAttribute(k, String(v));
  for (const c of children.flat()) if (c) el.append(c);
  return el;
}

export const button = (label, attrs) => h('button', { type: 'button', ...attrs }, label);

// link leads to a page of the console.
export const link = (href, ...children) => h('a', { href, 'data-page': true }, ...children);

// id shows one in full; it may break anywhere, and is selected as a whole.
export const id = (text) => h('code', { class: 'id' }, text);

// facts is a list of names and values; those without a value are left out. A value may be a list of lines.
export function facts(rows, attrs) {
  const dl = h('dl', { class: 'facts', ...attrs });
  for (const [name, value, mark] of rows) {
    if (value === undefined || value === null || value === '' || (Array.isArray(value) && value.length === 0)) continue;
    dl.append(h('div', mark ? { class: mark } : null, h('dt', null, name), h('dd', null, value)));
  }
  return dl;
}

// table takes headings and rows of cells.
export function table(caption, heads, rows, attrs) {
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', attrs, h('caption', { class: 'unseen' }, caption),
      h('thead', null, h('tr', null, heads.map((t) => h('th', { scope: 'col' }, t)))),
      h('tbody', null, rows)));
}

// badge is a word with a colour, whose word alone says everything.
export const badge = (word, kind) => h('span', { class: 'badge ' + (kind ?? word) }, word);

export const empty = (title, text) => h('div', { class: 'empty' }, h('h2', null, title), h('p', null, text));

// head is a page's title line.
export function head(title, lead, ...actions) {
  return h('div', { class: 'head' }, h('div', null, h('h1', null, title), lead ? h('p', { class: 'lead' }, lead) : null),
    actions.length ? h('div', { class: 'actions' }, ...actions) : null);
}

// field is a labelled input.
export function field(label, input, hint) {
  const key = 'f' + (field.n = (field.n ?? 0) + 1);
  input.id = key;
  if (hint) input.setAttribute('aria-describedby', key + 'h');
  return h('div', { class: 'field' }, h('label', { for: key }, label), input, hint ? h('p', { class: 'hint', id: key + 'h' }, hint) : null);
}

const none = '0001-01-01T00:00:00Z';
export const known = (t) => t && t !== none;

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false });
const day = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: '2-digit' });

// time shows one, its exact form in reach.
export function time(t) {
  if (!known(t)) return h('span', { class: 'faint' }, '–');
  const d = new Date(t);
  const today = d.toDateString() === new Date().toDateString();
  return h('time', { datetime: t, title: d.toISOString() }, today ? clock.format(d) : day.format(d) + ' ' + clock.format(d));
}

export function ago(t) {
  const n = Math.round((Date.now() - new Date(t)) / 1000);
  if (n < 1) return 'just now';
  if (n < 60) return n + ' s ago';
  if (n < 3600) return Math.floor(n / 60) + ' min ago';
  if (n < 172800) return Math.floor(n / 3600) + ' h ago';
  return Math.floor(n / 86400) + ' days ago';
}

export const short = (digest) => (digest ? digest.slice(0, 19) + '…' : 'unknown');

// many counts things: 1 call, 2 calls.
export const many = (n, what) => `${n} ${what}${n === 1 ? '' : 's'}`;

// notice says something over the page's end, to screen readers too. kind: done, fault. What was done last stands alone;
// faults stay.
export function notice(kind, text) {
  const box = document.getElementById('notices');
  const n = h('div', { class: 'notice ' + kind }, h('p', null, text), button('Dismiss', { onclick: () => n.remove() }));
  if (kind === 'done') box.querySelector('.done')?.remove();
  box.append(n);
  while (box.children.length > 4) box.firstChild.remove();
  if (kind === 'done') setTimeout(() => n.remove(), 12000);
}

export const fault = (e) => notice('fault', e.error ? e.reason + (e.retry ? '. ' + e.retry[0].toUpperCase() + e.retry.slice(1) + '.' : '') : String(e.message ?? e));

// keep swaps a page's content for a newer one, and leaves the keyboard where it was: on the element with the same data-key.
export function keep(root, ...content) {
  const at = root.contains(document.activeElement) ? document.activeElement.closest('[data-key]')?.dataset.key : undefined;
  const scrolled = [...root.querySelectorAll('.scroll')].map((x) => x.scrollLeft);
  root.replaceChildren(...content.flat().filter(Boolean));
  if (at) root.querySelector(`[data-key="${CSS.escape(at)}"]`)?.focus({ preventScroll: true });
  root.querySelectorAll('.scroll').forEach((x, i) => { x.scrollLeft = scrolled[i] ?? 0; });
}
