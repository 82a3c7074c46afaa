// A card's digest, computed from what is shown: RFC 8785 is what JSON.stringify gives once the keys are in order.

const order = (v) => {
  if (Array.isArray(v)) return v.map(order);
  if (v === null || typeof v !== 'object') return v;
  return Object.fromEntries(Object.keys(v).sort().map((k) => [k, order(v[k])]));
};

export async function digestOf(card) {
  const bytes = new TextEncoder().encode(JSON.stringify(order({ ...card, cardDigest: '' })));
  const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return 'sha256:' + [...sum].map((b) => b.toString(16).padStart(2, '0')).join('');
}

let list;

// words says the first 66 bits of a digest as six words, as `sp approvals` does.
export async function words(digest) {
  list ??= await (await fetch('/assets/words.json')).json();
  let n = BigInt('0x' + digest.slice(7, 7 + 18)) >> 6n;
  const out = [];
  for (let i = 0; i < 6; i++) {
    out.unshift(list[Number(n & 2047n)]);
    n >>= 11n;
  }
  return out.join(' ');
}
