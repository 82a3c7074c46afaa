# Like nodemon: a parent that keeps the pipe and replaces its worker when the file "replace" appears.
import os, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
sign = os.path.join(HERE, "replace")
while True:
    worker = subprocess.Popen([sys.executable, os.path.join(HERE, "server.py")])
    while worker.poll() is None and not os.path.exists(sign):
        time.sleep(0.01)
    if worker.poll() is not None:
        sys.exit(worker.returncode)
    worker.kill()
    worker.wait()
    os.remove(sign)
