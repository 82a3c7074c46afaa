#!/usr/bin/env python3
"""A second verifier of the audit log, written from the package comment alone (doc.go). Python 3's standard library only.

usage: verify.py FOLDER [CHECKPOINT]     FOLDER holds audit.pub, the pin, and the segments
Prints one line as the vectors' verdict files do. It looks at every signature and root.
"""
import base64, datetime, hashlib, os, re, struct, sys

# Ed25519 (RFC 8032, section 5.1.7), slow and short.
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
I = pow(2, (P - 1) // 4, P)


def add(a, b):
    A, B = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    C, E = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = B - A, E - C, E + C, B + A
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(k, a):
    r = (0, 1, 1, 0)
    while k:
        if k & 1:
            r = add(r, a)
        a, k = add(a, a), k >> 1
    return r


def point(b):
    y = int.from_bytes(b, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * I % P
    if y >= P or (x * x - x2) % P or (x == 0 and sign):
        return None
    return (P - x if x & 1 != sign else x, y, 1, (P - x if x & 1 != sign else x) * y % P)


G = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def signed(key, text, sig):
    a, r, s = point(key), point(sig[:32]), int.from_bytes(sig[32:], "little")
    if a is None or r is None or s >= L or len(sig) != 64:
        return False
    h = int.from_bytes(hashlib.sha512(sig[:32] + key + text).digest(), "little") % L
    l, m = times(s, G), add(r, times(h, a))
    return (l[0] * m[2] - m[0] * l[2]) % P == 0 and (l[1] * m[2] - m[1] * l[2]) % P == 0


def sha(*b):
    return hashlib.sha256(b"".join(b)).digest()


class Fault(Exception):
    pass


class Unfit(Exception):
    """no valid frame or batch here; sig: only a signature is wrong"""
    sig = False


class Cursor:
    def __init__(self, b):
        self.b = b

    def take(self, n):
        if n > len(self.b):
            raise Unfit("short")
        v, self.b = self.b[:n], self.b[n:]
        return v

    def num(self, n):
        return int.from_bytes(self.take(n), "big")


def b64(b):
    return base64.b64encode(b).decode()


def note(text, name, key):
    """text of a signed note with a signature by key; others may stand beside it"""
    body, _, sigs = text.partition("\n\n")
    body += "\n"
    kid = sha(name.encode() + b"\n\x01" + key)[:4]
    for line in sigs.splitlines():
        m = re.fullmatch("\u2014 (\\S+) (\\S+)", line)
        raw = base64.b64decode(m[2])
        if m[1] == name and raw[:4] == kid and signed(key, body.encode(), raw[4:]):
            return body
    return None


class Pub:
    def __init__(self, raw):
        text = raw.decode()
        f = {}
        for line in text.partition("\n\n")[0].splitlines()[1:]:
            k, _, v = line.partition(" ")
            f.setdefault(k, []).append(v)
        self.origin, self.serial, self.readers = f["origin"][0], int(f["serial"][0]), [sha(r.encode()) for r in f["recipient"]]
        self.identity, self.recovery = (base64.b64decode(f[k][0]) for k in ("identity", "recovery"))
        if not text.startswith("auditlog public key 1\n") or note(text, self.origin, self.identity) is None:
            raise ValueError("audit.pub")


def node(a, b):
    return sha(b"\x01", a, b)


def with_leaf(edge, size, leaf):
    edge = list(edge)
    while size & 1:
        leaf, size = node(edge.pop(), leaf), size >> 1
    return edge + [leaf]


def root(edge):
    r = edge[-1]
    for e in reversed(edge[:-1]):
        r = node(e, r)
    return r


def frame(b, off):
    if off == len(b):
        return None
    if off + 5 > len(b):
        raise Unfit("prefix")
    n, typ = struct.unpack_from(">IB", b, off)
    if not 1 <= n <= 1 << 20 or not 1 <= typ <= 4 or off + 5 + n > len(b):
        raise Unfit("frame")
    return typ, b[off:off + 5 + n]


class Commit:
    def __init__(self, body, origin):
        if len(body) not in (168, 232):
            raise Unfit("commit")
        c = Cursor(body)
        self.log, self.segment, self.seq, self.number, self.time = c.take(8), c.num(8), c.num(8), c.num(8), c.num(8)
        self.head, self.root, self.sig, self.id_sig = c.take(32), c.take(32), c.take(64), c.b
        s, ns = divmod(self.time, 10**9)
        frac = (".%09d" % ns).rstrip("0").rstrip(".")
        t = datetime.datetime.fromtimestamp(s, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S") + frac + "Z"
        self.text = f"{origin}\n{self.number}\n{b64(self.root)}\nsequence {self.seq}\nhead {b64(self.head)}\nsegment {self.segment}\ntime {t}\n".encode()
        self.leaf = sha(b"\x00", struct.pack(">QQ", self.seq, self.time), self.head)

    def signed(self, key, pub):
        return signed(key, self.text, self.sig) and (not self.id_sig or signed(pub.identity, self.text, self.id_sig))


class Header:
    def __init__(self, body):
        c = Cursor(body)
        if c.take(8) != b"auditlg\x01":
            raise Unfit("magic")
        self.origin, self.segment, self.reason, _ = c.take(c.num(1)).decode("latin1"), c.num(8), c.num(1), c.num(8)
        self.head, self.seq, self.number = c.take(32), c.num(8), c.num(8)
        self.edge = [c.take(32) for _ in range(c.num(1))]
        self.key, _, self.serial = c.take(32), c.num(8), c.num(8)
        self.readers = [c.take(32) for _ in range(c.num(1))]
        self.pub = c.take(c.num(4))
        self.drops = [(c.num(8), c.num(8), c.num(8), c.take(32)) for _ in range(c.num(2))]
        self.open = [(c.num(8), c.num(8), c.take(16), c.take(c.num(2))) for _ in range(c.num(4))]
        c.take(c.num(4))
        self.text, self.sig = b"auditlog header 1\n" + body[:-64], c.take(64)
        if c.b or len(self.edge) != bin(self.number).count("1"):
            raise Unfit("header")


class Log:
    def __init__(self, pub):
        self.pub, self.id = pub, sha(pub.identity)[:8]
        self.head, self.seq, self.number, self.edge = sha(b"auditlog chain 1\n" + pub.origin.encode()), 0, 0, []
        self.key, self.serial, self.readers, self.open, self.drops = b"", 0, [], {}, []
        self.torn, self.sure, self.sure_count, self.end, self.anchor, self.root = 0, 0, 0, (1, 0), None, b""

    def fail(self, kind, segment, off):
        raise Fault(kind, f"{segment:08d}.seg", off, self.seq + 1)

    def enter(self, n, h):
        p = self.pub
        if h.segment != n or h.origin != p.origin or (n == 1) != (h.reason == 1):
            self.fail("tampered", n, 0)
        for i, d in enumerate(self.drops):
            if h.drops[i:i + 1] != [d]:
                self.fail("tampered", d[0], d[1])
        if len(h.drops) > len(self.drops):
            self.fail("tampered", h.drops[len(self.drops)][0], h.drops[len(self.drops)][1])
        if (h.reason == 4) != bool(h.drops):
            self.fail("tampered", n, 0)
        by = {1: p.identity, 2: p.recovery, 3: self.key, 4: p.recovery}.get(h.reason)
        if by is None or not signed(by, h.text, h.sig):
            self.fail("tampered" if by is None else "unsigned", n, 0)
        if (h.head, h.seq, h.number) != (self.head, self.seq, self.number):
            self.fail("tampered", *self.end)
        if h.serial < max(self.serial, 1) or h.edge != self.edge:
            self.fail("tampered", n, 0)
        if n > 1 and h.serial > self.serial:
            try:
                q = Pub(h.pub)
            except Exception:
                self.fail("unsigned", n, 0)
            if (q.serial, q.origin, q.identity, q.recovery, q.readers) != (h.serial, p.origin, p.identity, p.recovery, h.readers):
                self.fail("unsigned", n, 0)
        elif h.pub or n > 1 and h.readers != self.readers:
            self.fail("tampered", n, 0)
        if h.serial == p.serial and h.readers != p.readers:
            self.fail("tampered", n, 0)
        if h.open != sorted(self.open.values()):
            self.fail("tampered", n, 0)
        self.torn += sum(d[2] for d in h.drops)
        self.key, self.serial, self.readers, self.drops = h.key, h.serial, h.readers, []

    def batch(self, n, b, off):
        """reads one batch; accepts it if it is valid. None: the segment ends here"""
        start, head, seq, effects, h = off, self.head, self.seq, [], None
        f = frame(b, off)
        if f is None and off:
            return None
        if f is None or f[0] != (2 if off else 1) or off and len(f[1]) != 21:
            raise Unfit("beginning")
        if not off:
            h = Header(f[1][5:])
            head, seq, number, key = h.head, h.seq, h.number, h.key
        else:
            number, key = self.number, self.key
        link = b""
        while True:
            off += len(f[1])
            if f[0] == 4:
                before, head = head, sha(head, f[1])
                break
            link += f[1]
            if f[0] == 3:
                body = f[1][5:]
                c = Cursor(body)
                kind, subject, own = c.num(1), c.take(16), c.num(2)
                if not 1 <= kind <= 3 or kind > 1 and not any(subject) or own > 1024 or own > len(c.b) or len(f[1]) % 64 != 2 or len(c.b) - own <= 16:
                    raise Unfit("record")
                seq += 1
                effects.append((kind, seq, subject, body[19:19 + own]))
            f = frame(b, off)
            if f and f[0] == 4:
                head = sha(head, link)
            if f is None or f[0] not in (3, 4) or h and f[0] != 4 or off + len(f[1]) - start > 4 << 20:
                raise Unfit("batch")
        c = Commit(f[1][5:], self.pub.origin)
        if (c.log, c.segment, c.seq, c.number, c.head) != (self.id, h.segment if h else n, seq, number + 1, before) or not h and not effects and not c.id_sig:
            raise Unfit("commit")
        if not c.signed(key, self.pub):
            e = Unfit("signature")
            e.sig = True
            raise e
        if h:
            self.enter(n, h)
        edge = with_leaf(self.edge, self.number, c.leaf)
        if root(edge) != c.root:
            self.fail("tampered", n, start)
        for kind, s, subject, own in effects:
            if kind == 3:
                self.open.pop(subject, None)
            elif kind == 2:
                self.open.setdefault(subject, (s, c.time, subject, own))
                if sum(34 + len(i[3]) for i in self.open.values()) > 768 << 10:
                    self.fail("tampered", n, start)
        self.head, self.seq, self.number, self.edge, self.root, self.end = head, seq, c.number, edge, c.root, (n, off)
        if c.id_sig:
            self.sure, self.sure_count = c.number, self.sure_count + 1
        a = self.anchor
        if a and a[0] == c.number and a[1] != c.text:
            self.fail("forked", n, off)
        return off

    def segment(self, n, b):
        off = 0
        try:
            while (at := self.batch(n, b, off)) is not None:
                off = at
            return
        except Unfit as e:
            unfit = e
        tail = b[off:].rstrip(b"\0")
        blank = len(b) - off - len(tail) > 256 << 20
        if not tail and off and not blank:
            return
        kind = "unsigned" if unfit.sig else "tampered"
        if len(tail) > 4 << 20 or blank:
            self.fail(kind, n, off)
        start = b"\x04" + self.id + struct.pack(">Q", n)
        for m in re.finditer(re.escape(start), b[off:]):
            at = off + m.start() - 4
            size = int.from_bytes(b[max(at, 0):at + 4], "big")
            if at < off or size not in (168, 232) or at + 5 + size > len(b):
                continue
            c = Commit(b[at + 5:at + 5 + size], self.pub.origin)
            if off and not c.signed(self.key, self.pub) or c.number == self.number + 1 and at + 5 + size >= off + len(tail):
                continue
            self.fail(kind, n, off)
        self.drops.append((n, off, len(tail), sha(tail)))

    def verdict(self, names, read):
        for n, name in enumerate(names, 1):
            if name != f"{n:08d}.seg":
                raise Fault("tampered", f"{n:08d}.seg", 0, 0)
        for n, name in enumerate(names, 1):
            self.segment(n, read(name))
        self.torn += sum(d[2] for d in self.drops)
        if self.anchor and self.anchor[0] > self.number:
            self.fail("truncated", *self.end)
        if not self.number:
            self.seq = 0
            self.fail("truncated", 1, 0)
        for d in self.drops:
            if d[2]:
                return "torn", "", f"{d[0]:08d}.seg", d[1], self.seq + 1
        return "intact", "", "", 0, 0


def main(folder, checkpoint=None):
    read = lambda name: open(os.path.join(folder, name), "rb").read()
    try:
        log = Log(Pub(read("audit.pub")))
    except Exception:
        return "broken kind=unsigned segment=audit.pub offset=0 seq=0 records=0 commits=0 open=0 torn=0 countersigned=0 weak=0 root="
    if checkpoint:
        text = note(open(checkpoint, encoding="utf-8").read(), log.pub.origin, log.pub.identity)
        log.anchor = int(text.splitlines()[1]), text.encode()
    try:
        v = log.verdict(sorted(f for f in os.listdir(folder) if f.endswith(".seg")), read)
    except Fault as f:
        v = ("broken",) + f.args
    return "%s kind=%s segment=%s offset=%d seq=%d" % v + " records=%d commits=%d open=%d torn=%d countersigned=%d weak=%d root=%s" % (
        log.seq, log.number, len(log.open), log.torn, log.sure_count, log.number - log.sure, b64(log.root))


if __name__ == "__main__":
    print(main(*sys.argv[1:]))
