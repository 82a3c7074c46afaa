# An MCP server for tests: each tool has one habit. LEDGER is the file in which its writes count, one line each.
import json, os, subprocess, sys, threading, time

REVISION = "A"
HERE = os.path.dirname(os.path.abspath(__file__))
out = threading.Lock()


def send(doc):
    with out:
        sys.stdout.write(json.dumps(doc) + "\n")
        sys.stdout.flush()


def write(marker):
    with open(os.environ["LEDGER"], "a") as f:
        f.write("%s revision=%s\n" % (marker, REVISION))


def wait(path):
    while not os.path.exists(path):
        time.sleep(0.005)


def call(name, args):
    marker = args.get("marker", "-")
    if name in ("adjust", "publish"):
        write(marker)
        return "%s revision=%s" % (marker, REVISION)
    if name == "get":
        return "revision=%s" % REVISION
    if name == "target":  # what the running code does with an omitted argument
        write(args.get("target", "preview"))
        return args.get("target", "preview")
    if name == "die_after":
        write(marker)
        os._exit(3)
    if name == "die_before":
        os._exit(3)
    if name == "wait_read":
        open(args["gate"] + ".asked", "w").close()
        wait(args["gate"])
        return "read"
    if name == "wait_before":
        open(args["gate"] + ".asked", "w").close()
        wait(args["gate"])
        write(marker)
        return "done"
    if name == "wait_after":
        write(marker)
        wait(args["gate"])
        return "done"
    if name == "lazy":
        import late

        return late.word()
    if name == "notify":
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return "told"
    if name == "orphan":
        p = subprocess.Popen([sys.executable, "-c", "import signal,time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)
        return str(p.pid)
    if name == "fetch":
        import sallyport

        return json.dumps(sallyport.call("http_request", args))
    if name == "timer":
        def later():
            import sallyport

            wait(args["gate"])
            with open(args["gate"] + ".answer", "w") as f:
                f.write(json.dumps(sallyport.call("http_request", args["request"])))
                f.flush()
            os.rename(args["gate"] + ".answer", args["gate"] + ".done")

        threading.Thread(target=later, daemon=True).start()
        return "set"
    if name == "later":  # runs a command once gate is there, which nobody waits for
        def run():
            wait(args["gate"])
            with open(args["gate"] + ".out", "w") as f:
                subprocess.run(args["argv"], stdin=subprocess.DEVNULL, stdout=f, stderr=f)
            os.rename(args["gate"] + ".out", args["gate"] + ".done")

        threading.Thread(target=run, daemon=True).start()
        return "set"
    raise KeyError(name)


def answer(m):
    method, params = m["method"], m.get("params") or {}
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "test", "version": REVISION}}
    if method == "tools/list":
        with open(os.path.join(HERE, "tools.json")) as f:
            return {"tools": json.load(f)}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": call(params["name"], params.get("arguments") or {})}]}
    return {}


def serve(m):
    try:
        send({"jsonrpc": "2.0", "id": m["id"], "result": answer(m)})
    except Exception as e:
        send({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32603, "message": repr(e)}})


for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "server/discover":
        os._exit(1)  # a server that knows nothing of it, badly
    if "id" in m and "method" in m:
        threading.Thread(target=serve, args=(m,), daemon=True).start()
