# The server of `sp drill rebuild`. Its one argument is the folder of its ledger: a line there is a write that happened.
import json, os, sys, threading, time

import part

REVISION = "A"
EXTRA = []  # required fields that this revision adds
HERE = os.path.dirname(os.path.abspath(__file__))
lock = threading.Lock()


def write(text):
    with open(os.path.join(sys.argv[1], "ledger"), "a") as f:
        f.write(text + "\n")


def fields(**more):
    return {"type": "object", "properties": more, "required": ["marker"] + EXTRA}


def tools():
    marker = {"type": "string"}
    write_tool = fields(marker=marker, **{name: {"type": "string"} for name in EXTRA})
    target = {"type": "string", "enum": ["preview", "production"], "default": "preview"}
    out = [{"name": "adjust", "description": "writes", "inputSchema": write_tool},
           {"name": "look", "description": "reads", "inputSchema": {"type": "object", "properties": {}}, "annotations": {"readOnlyHint": True}},
           {"name": "hold", "description": "writes, and answers when told", "inputSchema": fields(marker=marker)},
           {"name": "grow", "description": "adds a field to publish", "inputSchema": {"type": "object", "properties": {}}},
           {"name": "publish", "description": "publishes", "inputSchema": fields(marker=marker)}]
    if os.path.exists(os.path.join(sys.argv[1], "grown")):
        out[-1]["inputSchema"] = fields(marker=marker, target=target)
    return out


def call(name, args):
    marker = args.get("marker", "")
    if name == "look":
        return {"revision": REVISION, "part": part.WORD}
    if name == "grow":
        open(os.path.join(sys.argv[1], "grown"), "w").close()
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        return {"grown": True}
    if name == "publish":
        target = args.get("target", OMITTED)
        write("publish %s target=%s" % (marker, target))
        return {"target": target}
    write("%s %s revision=%s" % (name, marker, REVISION))
    while name == "hold" and not os.path.exists(os.path.join(sys.argv[1], "go")):
        time.sleep(0.01)
    return {"revision": REVISION, "marker": marker}


OMITTED = "preview"


def send(doc):
    with lock:
        sys.stdout.write(json.dumps(doc) + "\n")
        sys.stdout.flush()


def serve(m):
    params = m.get("params") or {}
    result = {}
    if m["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "drill", "version": REVISION}}
    if m["method"] == "tools/list":
        result = {"tools": tools()}
    if m["method"] == "tools/call":
        doc = call(params["name"], params.get("arguments") or {})
        result = {"content": [{"type": "text", "text": json.dumps(doc)}], "structuredContent": doc}
    send({"jsonrpc": "2.0", "id": m["id"], "result": result})


for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "server/discover":
        send({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "unknown method"}})
    elif "id" in m and "method" in m:
        threading.Thread(target=serve, args=(m,), daemon=True).start()
