#!/usr/bin/env python3
"""run_agent.py - run a real agent client, offline, against one MCP stdio server.

    python3 run_agent.py claude|codex|gemini --script S.json --mcp NAME [options] -- CMD ARGS...

Makes a fresh HOME and work folder, writes the client's configuration with CMD as its one
MCP server (calls allowed without a human), starts the scripted model on loopback, runs the
client headless until it ends or is killed, and prints one JSON line on what happened.
The client gets a cleared environment (dummy key; telemetry and updates off), and with
--no-network it runs in a network namespace that has loopback and nothing else.
The client's program is looked up in --bin DIR (e.g. node_modules/.bin), then in PATH.
"""
import argparse, atexit, ctypes, fcntl, json, os, pty, shutil, signal, socket, struct, subprocess, sys
import tempfile, termios, threading, time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from scripted_model import Model

MARK = "RUN_AGENT_MARK"      # put into the server's configured env: finds its processes again


def options():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("client", choices=["claude", "codex", "gemini"])
    ap.add_argument("--script", required=True)
    ap.add_argument("--mcp", required=True, metavar="NAME", help="the server's name in the client")
    ap.add_argument("--bin", help="folder that holds the client's program")
    ap.add_argument("--prompt", default="Play the script.")
    ap.add_argument("--server-env", action="append", default=[], metavar="K=V", help="env of the MCP server's entry")
    ap.add_argument("--server-set", action="append", default=[], metavar="K=JSON",
                    help="more keys of the MCP server's entry, e.g. tool_timeout_sec=120 (codex), timeout=5000 (claude, gemini)")
    ap.add_argument("--client-env", action="append", default=[], metavar="K=V")
    ap.add_argument("--client-arg", action="append", default=[])
    ap.add_argument("--kill-after-tool-call", type=int, metavar="N", help="kill once the answer holding call N was sent")
    ap.add_argument("--kill-after-seconds", type=float)
    ap.add_argument("--kill-when", metavar="FILE", help="kill once FILE exists")
    ap.add_argument("--kill-delay", type=float, default=1.0, help="wait this long after call N (default 1)")
    ap.add_argument("--kill-signal", default="KILL")
    ap.add_argument("--kill-target", choices=["client", "wrapper", "group", "server"], default="client",
                    help="client: the started program and its session, but the server; wrapper: the "
                         "started program alone; group: its process group; server: the server's processes")
    ap.add_argument("--tty", action="store_true", help="run the client's terminal interface, not its headless mode")
    ap.add_argument("--keys", action="append", default=[], metavar="N:SECONDS:TEXT",
                    help=r"with --tty: type TEXT (\x1b is Esc, \r Return) SECONDS after call N was sent (0: after the start)")
    ap.add_argument("--timeout", type=float, default=180)
    ap.add_argument("--linger", type=float, default=15, help="watch the server this long after the client's end")
    ap.add_argument("--keep", metavar="DIR", help="keep HOME, logs and request bodies there")
    ap.add_argument("--no-network", action="store_true", help="loopback-only network namespace (root, or user namespaces)")
    ap.add_argument("cmd", nargs="+", metavar="-- CMD ARGS")
    return ap.parse_args()


def enter_netns():
    """Re-run this program in a new network namespace, then bring loopback up."""
    if os.environ.get("RUN_AGENT_NETNS") != "1":
        os.environ["RUN_AGENT_NETNS"] = "1"
        flags = "-n" if os.geteuid() == 0 else "-rn"
        os.execvp("unshare", ["unshare", flags, sys.executable] + sys.argv)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:       # ip link set lo up
        fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))


# --- the clients' configurations ----------------------------------------------------------

def pairs(items):
    return dict(i.split("=", 1) for i in items)


def setup(o, home, work, port, mark):
    """Write the client's configuration; return (argv, environment)."""
    extra = {k: json.loads(v) for k, v in pairs(o.server_set).items()}
    server = {"command": o.cmd[0], "args": o.cmd[1:], "env": {**pairs(o.server_env), MARK: mark}, **extra}
    env = {"HOME": str(home), "PATH": (o.bin + ":" if o.bin else "") + os.environ.get("PATH", "/usr/bin:/bin"),
           "TERM": "dumb", "LANG": "C.UTF-8", "TMPDIR": str(home / "tmp")}
    (home / "tmp").mkdir()
    base = f"http://127.0.0.1:{port}"
    if o.client == "claude":
        (home / ".claude.json").write_text(json.dumps({
            "hasCompletedOnboarding": True, "theme": "dark", "customApiKeyResponses": {"approved": ["sk-ant-dummy"], "rejected": []},
            "projects": {str(work): {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}}}))
        conf = home / "mcp.json"
        conf.write_text(json.dumps({"mcpServers": {o.mcp: {"type": "stdio", **server}}}))
        env |= {"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "sk-ant-dummy",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
                "DISABLE_TELEMETRY": "1", "DISABLE_ERROR_REPORTING": "1"}
        argv = ["claude", *([] if o.tty else ["-p"]), *([o.prompt] if o.prompt else []), "--mcp-config", str(conf), "--strict-mcp-config",
                "--allowedTools", f"mcp__{o.mcp}", *([] if o.tty else ["--output-format", "json"])]
    elif o.client == "codex":
        (home / ".codex").mkdir()
        toml = lambda v: ("{" + ", ".join(f"{json.dumps(k)} = {toml(x)}" for k, x in v.items()) + "}"
                          if isinstance(v, dict) else json.dumps(v))
        server = {"default_tools_approval_mode": "approve", **server}
        (home / ".codex/config.toml").write_text("\n".join([
            'model = "scripted"', 'model_provider = "scripted"', 'approval_policy = "never"',
            'sandbox_mode = "read-only"', 'check_for_update_on_startup = false', 'web_search = "disabled"',
            "[features]", "plugins = false", "[analytics]", "enabled = false", "[feedback]", "enabled = false",
            "[model_providers.scripted]", 'name = "scripted"', f'base_url = "{base}/v1"',
            'wire_api = "responses"', 'env_key = "SCRIPTED_API_KEY"', "request_max_retries = 0",
            "stream_max_retries = 0", f"[mcp_servers.{o.mcp}]"]
            + [f"{k} = {toml(v)}" for k, v in server.items()]
            + [f"[projects.{json.dumps(str(work))}]", 'trust_level = "trusted"']) + "\n")
        env |= {"SCRIPTED_API_KEY": "dummy"}
        argv = ["codex", *([o.prompt] if o.prompt else [])] if o.tty else ["codex", "exec", "--skip-git-repo-check", "--json", o.prompt]
    else:
        (home / ".gemini").mkdir()
        (home / ".gemini/settings.json").write_text(json.dumps({
            "mcpServers": {o.mcp: {"trust": True, **server}},
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False},
            "security": {"auth": {"selectedType": "gemini-api-key"}}}))
        env |= {"GOOGLE_GEMINI_BASE_URL": base, "GEMINI_API_KEY": "dummy", "GEMINI_TELEMETRY_ENABLED": "false",
                "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        argv = ["gemini", *(["-i" if o.tty else "-p", o.prompt] if o.prompt else []), "--model", "gemini-2.5-flash", "--skip-trust",
                "--approval-mode", "yolo", *([] if o.tty else ["--output-format", "json"])]
    argv[0] = shutil.which(argv[0], path=env["PATH"]) or sys.exit(f"{argv[0]}: not found; give --bin DIR")
    return argv + o.client_arg, env | pairs(o.client_env)


# --- watching the server's processes --------------------------------------------------------

def stat(pid):
    """(ppid, pgid, sid, start time, state), or None when there is no such process."""
    try:
        f = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(f[1]), int(f[2]), int(f[3]), f[19], f[0]
    except (OSError, IndexError):
        return None


def kind(pid, fd):
    try:
        to = os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return "closed"
    if to.startswith("socket:["):
        unix = Path(f"/proc/{pid}/net/unix").read_text()
        return "unix socket (socketpair)" if f" {to[8:-1]}" in unix else "socket"
    return "pipe" if to.startswith("pipe:[") else to


class Watch(threading.Thread):
    """Looks 40 times a second at this program's descendants. Those with our mark in their
    environment are the server's; the others are the client's. Needs the driver to be a child
    subreaper, so that orphans come to it (as they do to a service manager) and none gets lost."""

    def __init__(self, mark, t0):
        super().__init__(daemon=True)
        self.mark, self.t0, self.over = f"{MARK}={mark}".encode(), t0, False
        self.seen, self.others = {}, {}              # (pid, start time) -> what we know

    def run(self):
        while not self.over:
            self.tick()
            time.sleep(0.025)

    def tick(self):
        now = round(time.time() - self.t0, 2)
        stats = {int(n): st for n in os.listdir("/proc") if n.isdigit() and (st := stat(n))}
        mine, grew = {os.getpid()}, True
        while grew:
            more = {p for p, st in stats.items() if st[0] in mine} - mine
            mine, grew = mine | more, bool(more)
        for pid in mine - {os.getpid()}:
            st, key = stats[pid], (pid, stats[pid][3])
            if st[4] in "ZX":
                continue
            try:
                if key in self.seen:
                    was = self.seen[key]
                    if st[0] != was["later_ppid"]:
                        was["later_ppid"] = st[0]
                        was["orphan_at_s"] = now if st[0] == os.getpid() else None
                    continue
                env = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                if self.mark not in env:             # read again each time: the next exec may bring it
                    self.others[key] = self.cmd(pid)
                    continue
                self.others.pop(key, None)
                self.seen[key] = {
                    "pid": pid, "ppid": st[0], "pgid": st[1], "sid": st[2],
                    "parent": self.cmd(st[0])[:1], "cmd": self.cmd(pid), "cwd": os.readlink(f"/proc/{pid}/cwd"),
                    "stdio": [kind(pid, fd) for fd in (0, 1, 2)],
                    "env_names": sorted(n for e in env if e and (n := e.split(b"=")[0].decode()) != MARK),
                    "from_s": now, "to_s": None, "later_ppid": st[0], "orphan_at_s": None}
            except OSError:
                continue
        for key, s in self.seen.items():
            if s["to_s"] is None and not self.alive(key):
                s["to_s"] = now

    @staticmethod
    def cmd(pid):
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
        except OSError:
            return []

    @staticmethod
    def alive(key):
        st = stat(key[0])
        return st is not None and st[3] == key[1] and st[4] not in "ZX"

    def living(self, which=None):
        return [k for k in list(self.seen if which is None else which) if self.alive(k)]


def kill(pids, sig=signal.SIGKILL, how=os.kill):
    for pid in pids:
        try:
            how(pid, sig)
        except ProcessLookupError:
            pass


def client_pids(watch, top):
    """The started program and its descendants in the same session, without the server's
    processes: so a daemon that the client has set apart is left alone."""
    out, todo, servers = [], [top], {k[0] for k in watch.living()}
    stats = {int(n): st for n in os.listdir("/proc") if n.isdigit() and (st := stat(n))}
    while todo:
        pid = todo.pop()
        out.append(pid)
        todo += [p for p, st in stats.items() if st[0] == pid and st[2] == top and p not in servers]
    return out


def launch(o, argv, env, work, root):
    """Start the client; with --tty on a terminal of its own. Returns (process, terminal's fd or None)."""
    out = open(root / "client.out", "wb", buffering=0)
    err = open(root / "client.err", "wb", buffering=0)
    if not o.tty:
        return subprocess.Popen(argv, cwd=work, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                start_new_session=True), None
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 140, 0, 0))
    client = subprocess.Popen(argv, cwd=work, env={**env, "TERM": "xterm-256color"}, stdin=theirs, stdout=theirs,
                              stderr=theirs, start_new_session=True,
                              preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(theirs)

    def pump():                                      # keep what is shown; answer a terminal's usual queries
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:
                return
            out.write(data)
            for query, answer in ((b"\x1b[6n", b"\x1b[1;1R"), (b"\x1b[c", b"\x1b[?62;c")):
                for _ in range(data.count(query)):
                    os.write(ours, answer)
    threading.Thread(target=pump, daemon=True).start()
    return client, ours


def version(program):
    """From the package.json above the program (a second start would cost seconds)."""
    for folder in Path(os.path.realpath(program)).parents:
        if (folder / "package.json").is_file():
            return json.loads((folder / "package.json").read_text()).get("version")
    return None


def main():
    o = options()
    if o.no_network:
        enter_netns()
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)          # PR_SET_CHILD_SUBREAPER
    root = Path(tempfile.mkdtemp(prefix="run-agent-")) if not o.keep else Path(o.keep).resolve()
    home, work = root / "home", root / "work"
    for d in (home, work):
        d.mkdir(parents=True)
    mark = f"{os.getpid()}-{time.time_ns()}"
    answered = {}                                    # call number -> when its answer was sent
    model = Model(json.load(open(o.script)), root / "model.jsonl", root / "bodies.jsonl",
                  on_answer=lambda n: [answered.setdefault(i, time.time()) for i in range(1, n + 1)])
    model.start()
    argv, env = setup(o, home, work, model.port, mark)
    t0 = time.time()
    watch = Watch(mark, t0)
    client, terminal = launch(o, argv, env, work, root)
    watch.start()
    atexit.register(lambda: kill(pid for pid, _ in watch.living() + watch.living(watch.others)))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))          # so that nothing outlives us
    keys = [k.split(":", 2) for k in o.keys]
    keys = [(int(n), float(after), text.encode().decode("unicode_escape").encode()) for n, after, text in keys]
    pressed, killed = [], None
    since = lambda n: time.time() - (t0 if n == 0 else answered.get(n, time.time() + 1e6))
    while client.poll() is None:
        time.sleep(0.02)
        for n, after, text in list(keys):
            if since(n) >= after:
                keys.remove((n, after, text))
                pressed.append({"at_s": round(time.time() - t0, 2), "keys": repr(text)})
                os.write(terminal, text)
        due = (o.kill_after_tool_call and since(o.kill_after_tool_call) >= o.kill_delay) \
            or (o.kill_after_seconds is not None and since(0) >= o.kill_after_seconds) \
            or (o.kill_when and os.path.exists(o.kill_when))
        if due and not killed:
            sig = getattr(signal, "SIG" + o.kill_signal)
            targets = {"server": [k[0] for k in watch.living()], "client": client_pids(watch, client.pid)}
            targets = targets.get(o.kill_target, [client.pid])
            killed = {"at_s": round(since(0), 2), "signal": o.kill_signal, "target": o.kill_target, "pids": targets}
            kill(targets, sig, os.killpg if o.kill_target == "group" else os.kill)
        if since(0) > o.timeout:
            killed = {"at_s": round(since(0), 2), "signal": "KILL", "target": "client", "why": "timeout"}
            kill(client_pids(watch, client.pid))
            client.wait()
    end = time.time()
    while time.time() - end < o.linger and watch.living():
        time.sleep(0.05)
    time.sleep(0.1)
    survivors, leftovers = watch.living(), watch.living(watch.others)
    watch.over = True
    watch.join()
    kill(pid for pid, _ in survivors + leftovers)
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
    model.stop()
    events = [e for e in model.events if "api" in e]
    main_events = [e for e in events if e["tools"]]
    calls = {}
    for e in main_events:
        calls.update({c["id"]: {**c, "at_s": round(e["t"] - t0 + e["sleep"], 2)} for c in e["calls"]})
    results, seen = [], set()
    for e in main_events:
        for r in e["results"]:
            if r["id"] not in seen or r["id"] == "call_scripted_":
                seen.add(r["id"])
                results.append({**r, "text": r["text"][:2000], "at_s": round(e["t"] - t0, 2)})
    ours = lambda names: [n for n in names if n.startswith((f"mcp__{o.mcp}", f"mcp_{o.mcp}"))]
    report = {"client": o.client, "version": version(argv[0]), "exit": client.returncode, "killed": killed,
              "pressed": pressed, "duration_s": round(end - t0, 2), "requests": len(events), "calls": list(calls.values()), "results": results,
              "offered": [ours(e["tools"]) for e in main_events],
              "other_requests": sorted({e["other"] for e in model.events if "other" in e}),
              "servers": [{**s, "alive_after_client_s": round((s["to_s"] or time.time() - t0) - (end - t0), 2),
                           "survived": k in survivors} for k, s in watch.seen.items()],
              "client_leftovers": [watch.others[k] for k in leftovers],
              "stdout_tail": (root / "client.out").read_text(errors="replace")[-600:],
              "stderr_tail": (root / "client.err").read_text(errors="replace")[-600:],
              "files": str(root) if o.keep else None}
    print(json.dumps(report, ensure_ascii=False))
    if not o.keep:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
