#!/usr/bin/env python3
"""The attacks of bench/attacks that no test holds: each function is one row, and yields what got through.

  attacks.py LINERATE FOLDER SECONDS     FOLDER is empty, and this program's own

Loopback only. A row is "attack | tried | result"; the exit status is 1 where something got through.
"""

import ctypes
import json
import os
import re
import resource
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
import warnings

LINERATE, FOLDER, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
TOKEN = "0123456789abcdef0123456789abcdef"
# In a file that nobody may have.
CANARY = "outside-4f1c"
SHOWN = "Authorization: Bearer %s\r\n" % TOKEN


def at(*names):
    return os.path.join(FOLDER, *names)


def write(path, text):
    with open(path, "w" if isinstance(text, str) else "wb") as file:
        file.write(text)
    os.chmod(path, 0o600)


def run(*words, timeout=30, **environment):
    """Exit status, both outputs together, seconds; no status: it did not end."""
    begun = time.monotonic()
    every = dict(os.environ, XDG_STATE_HOME=at("state"), XDG_CONFIG_HOME=at("state"), HOME=at("state"), **environment)
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    try:
        done = subprocess.run(
            [LINERATE, *words], env=every, cwd=FOLDER, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, timeout=timeout, preexec_fn=limit,
        )
        return done.returncode, done.stdout.decode("utf-8", "replace"), time.monotonic() - begun
    except subprocess.TimeoutExpired:
        return None, "", time.monotonic() - begun


def sound(what, ended, refused=True):
    """Yields what is wrong with an end that should be a refusal in one sentence."""
    status, said, seconds = ended
    if status is None or status < 0 or status == 101 or "panicked" in said:
        yield "%s: did not end well (%s, %.0f s): %s" % (what, status, seconds, said[:80])
    elif refused and status == 0:
        yield "%s: was taken: %s" % (what, said[:80])
    elif re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", said):
        yield "%s: control letters on the screen" % what
    elif len(said) > 20000:
        yield "%s: %d letters on the screen" % (what, len(said))


class Server:
    """`linerate serve` of FOLDER/data on a port of its own."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [LINERATE, "serve", at("data"), "--listen", "127.0.0.1:0", "--no-save", *words],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ, XDG_STATE_HOME=at("state")),
        )
        self.said, self.port, self.fingerprint = "", None, None
        while self.port is None:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit("attacks: linerate serve: " + self.said)
            self.said += line
            found = re.search(r"https?://127\.0\.0\.1:(\d+)", line)
            self.port = int(found.group(1)) if found else None
        threading.Thread(target=self.drain, daemon=True).start()

    def drain(self):
        for line in self.process.stdout:
            self.said += line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def connect(self, timeout=8):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def ask(self, request, timeout=8):
        """All that comes back until the server closes or is silent for so long; and the seconds."""
        begun = time.monotonic()
        request = request.encode("latin-1") if isinstance(request, str) else request
        answer = b""
        try:
            with self.connect(timeout) as peer:
                peer.sendall(request)
                while len(answer) < 1 << 24:
                    part = peer.recv(1 << 16)
                    if not part:
                        break
                    answer += part
        except OSError:
            pass
        return answer, time.monotonic() - begun

    def get(self, path, lines="", **how):
        head = "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: close\r\n%s\r\n" % (path, self.port, lines)
        return self.ask(head, **how)

    def lives(self):
        return b"inside" in self.get("/file")[0]


def status_of(answer):
    found = re.match(rb"HTTP/1\.[01] (\d+)", answer)
    return int(found.group(1)) if found else 0


def paths():
    """Of a tree with links out, FIFOs and devices."""
    data = at("data")
    os.symlink("../outside", data + "/link")
    os.symlink(at("outside"), data + "/absolute")
    os.symlink("/", data + "/top")
    os.symlink("/proc/self", data + "/proc")
    os.symlink("loop", data + "/loop")
    os.mkfifo(data + "/fifo")
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(data + "/socket")
    write(data + "/.x.linerate-part", CANARY)
    write(data + "/.x.linerate-journal", CANARY)
    try:
        os.mknod(data + "/null", 0o20666, os.makedev(1, 5))
    except PermissionError:
        os.symlink("/dev/zero", data + "/null")
    up = ["/../outside", "/%2e%2e/outside", "/.%2e/outside", "/%2e./outside", "/..%2foutside", "/%2e%2e%2foutside"]
    up += ["/..%5coutside", "/%252e%252e/outside", "/%25%32%65%25%32%65/outside", "/..;/outside", "/..%00/outside"]
    up += ["/\\..\\outside", "/..\\outside", "/%c0%ae%c0%ae/outside", "/%e0%80%ae%e0%80%ae/outside", "/sub/../../outside"]
    up += ["/sub/%2e%2e/%2e%2e/outside", "/file/../../outside", "/./../outside", "//../outside", "/.../outside"]
    up += ["/%u002e%u002e/outside", "/..%c0%afoutside", "/..%ef%bc%8foutside", "/?../outside", "/#/../outside"]
    links = ["/link", "/absolute", "/top/etc/passwd", "/top/", "/proc/environ", "/proc/cwd/outside", "/proc/root/etc/passwd"]
    links += ["/loop", "/loop/", "/fifo", "/socket", "/null", "/link/", "/absolute?linerate=blocks&bytes=4194304"]
    links += ["/link?linerate=blocks&bytes=4194304", "/top/?linerate=list", "/.x.linerate-part", "/.x.linerate-journal"]
    odd = ["/etc/passwd", "//etc/passwd", "/%2fetc%2fpasswd", "http://127.0.0.1/../outside", "file:///etc/passwd", "/file%00"]
    odd += ["/file%00.txt", "/%", "/%zz", "/" + "a/" * 4000]
    tried = up + links + odd
    with Server() as server:
        for path in tried:
            answer, seconds = server.get(path, timeout=5)
            if CANARY.encode() in answer or b"root:" in answer:
                yield "%s gave what is outside" % path[:40]
            if seconds > 4.5:
                yield "%s hangs" % path[:40]
        if not server.lives():
            yield "the server does not answer any more"
    unix.close()
    for name in os.listdir(data):
        if name not in ("file", "sub"):
            os.remove(data + "/" + name)
    yield len(tried)


def swapped_folder():
    """A folder and a link out change places while files in it are asked for and put."""
    data = at("data")
    os.makedirs(at("away"), exist_ok=True)
    write(at("away/secret"), CANARY)
    os.symlink(at("away"), data + "/swap")
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    names = [(data + name).encode() for name in ("/sub", "/swap")]
    over, counts = threading.Event(), [0, 0]

    def swap():
        while not over.is_set():
            # RENAME_EXCHANGE
            exchange(-100, names[0], -100, names[1], 2)

    bad = []
    with Server("--writable", "--token-file", at("token")) as server:

        def ask(number):
            while not over.is_set():
                counts[number] += 1
                if number:
                    put = "PUT /sub/new-%d HTTP/1.1\r\nHost: h\r\nConnection: close\r\n%sContent-Length: 3\r\n\r\nabc"
                    server.ask(put % (counts[1], SHOWN))
                elif CANARY.encode() in server.get("/sub/secret", SHOWN)[0]:
                    bad.append("a file outside was given")

        threads = [threading.Thread(target=swap)] + [threading.Thread(target=ask, args=(n,)) for n in (0, 0, 1)]
        for thread in threads:
            thread.start()
        time.sleep(SECONDS)
        over.set()
        for thread in threads:
            thread.join()
    if os.path.islink(data + "/sub"):
        exchange(-100, names[0], -100, names[1], 2)
    os.remove(data + "/swap")
    if os.listdir(at("away")) != ["secret"]:
        bad.append("a file was put outside: %s" % os.listdir(at("away"))[:3])
    yield from set(bad)
    yield sum(counts)


def smuggling():
    """A second request hides in the body of the first, or in what two readers see differently."""
    hidden = "GET /file HTTP/1.1\r\nHost: h\r\n\r\n"
    get = "GET /none HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    length = len(hidden)
    tried = [get + lines + "\r\n" + hidden for lines in (
        "Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % length,
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\n", "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding:\tchunked\r\n", "Transfer-Encoding: chunked, identity\r\n", "X: a\r\n Transfer-Encoding: chunked\r\n",
        "Content-Length: %d\r\nContent-Length: 0\r\n" % length, "Content-Length: %d, 0\r\n" % length,
        "Content-Length: +%d\r\n" % length, "Content-Length: 18446744073709551616\r\n", "Content-Length: -1\r\n",
        "Content-Length: 0x10\r\n", "Content-Length: %d\r\n" % length, "Content-Length : 0\r\n", "Content-Length: \r\n",
        "X: a\r\n\tContent-Length: %d\r\n" % length, "X: a\nContent-Length: 9\r\n", "X: a\rContent-Length: 9\r\n",
        "X: \x00\r\n", "Host: other\r\nConnection: close\r\n", "A: %s\r\n" % ("x" * 20000), "A: b\r\n" * 65, ": b\r\n", "A\r\n",
    )]
    tried += [version + "\r\nHost: h\r\n\r\n" + hidden for version in ("GET /none HTTP/2.0", "GET /none HTTP/1.10", "GET /none")]
    with Server() as server:
        for request in tried:
            answer, _ = server.ask(request, timeout=3)
            if b"inside" in answer:
                yield "%r: the hidden request was answered" % request[:60]
        # Asked for one after the other, each has its answer, in order.
        two = server.ask(hidden + "GET /none HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", timeout=3)[0]
        if len(re.findall(rb"HTTP/1\.1 \d", two)) != 2 and two.count(b"inside") > 1:
            yield "two requests had not two answers"
        if not server.lives():
            yield "the server does not answer any more"
    yield len(tried) + 1


def ranges():
    """Ranges and sums beyond all numbers."""
    most = 2**64
    queries = ["bytes=%d&first=0&count=1" % bytes_ for bytes_ in (0, 1, 4095, most - 1, most)]
    queries += ["bytes=4194304&first=%d&count=%d" % pair for pair in ((most - 1, 1), (0, most - 1), (most - 1, most - 1))]
    lines = ["bytes=0-%d" % (most - 1), "bytes=0-%d" % most, "bytes=%d-" % (most - 1), "bytes=-%d" % (most - 1)]
    lines += ["bytes=5-2", "bytes=" + ",".join("0-0" for _ in range(1200)), "bytes=x-y"]
    with Server() as server:
        for query in queries:
            if status_of(server.get("/file?linerate=blocks&" + query)[0]) not in (200, 400, 404, 416):
                yield "sums %s: no answer" % query
        for line in lines:
            answer = server.get("/file", "Range: %s\r\n" % line)[0]
            if status_of(answer) not in (200, 206, 400, 416) or len(answer) > 4096:
                yield "range %s: %r" % (line[:40], answer[:40])
        if not server.lives():
            yield "the server does not answer any more"
    yield len(queries) + len(lines)


def stopped_puts(count=10000):
    """Clients that stop in the middle of a PUT."""
    head = "PUT /stopped-%d HTTP/1.1\r\nHost: h\r\n" + SHOWN + "Content-Length: 1000000\r\n\r\n"
    with Server("--writable", "--token-file", at("token")) as server:
        here = "/proc/%d/fd" % server.process.pid
        before = len(os.listdir(here))
        for number in range(count):
            try:
                with server.connect() as peer:
                    peer.sendall((head % number).encode() + b"x" * 1000)
                    if number % 2:
                        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            except OSError:
                pass
        deadline = time.monotonic() + 20
        # Connections are accepted in turn: behind this one none of them is to come, and the last has its part.
        server.get("/file", SHOWN)
        while len(os.listdir(here)) > before and time.monotonic() < deadline:
            time.sleep(0.1)
        left = sorted(name for name in os.listdir(at("data")) if name not in ("file", "sub"))
        if left:
            yield "%d files were left: %s" % (len(left), left[:2])
        if len(os.listdir(here)) > before + 2:
            yield "%d descriptors, %d before" % (len(os.listdir(here)), before)
        with open("/proc/%d/status" % server.process.pid) as lines:
            memory = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
        if memory > 200 << 10:
            yield "%d MiB resident" % (memory >> 10)
        if b"inside" not in server.get("/file", SHOWN)[0]:
            yield "the server does not answer any more"
    yield count


def tls():
    """Old versions, no trust, plain HTTP to the port of TLS."""
    with Server("--tls") as server:
        for version in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
            warnings.simplefilter("ignore", DeprecationWarning)
            context = ssl._create_unverified_context()
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = version
            try:
                with server.connect() as peer, context.wrap_socket(peer) as wrapped:
                    yield "%s was spoken" % wrapped.version()
            except (OSError, ssl.SSLError):
                pass
        if b"inside" in server.ask("GET /file HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")[0]:
            yield "the file came without TLS"
        url = "https://127.0.0.1:%d/file" % server.port
        tried = [[], ["--fingerprint", "0" * 64], ["--fingerprint", "00"]]
        for words in tried:
            yield from sound("get %s" % words, run("get", url, "--output", at("got"), "--timeout", "2s", *words))
        shutil.rmtree(at("got"), ignore_errors=True)
    yield 3 + len(tried)


class Liar:
    """A server whose answers a function gives: (head) -> bytes, or an iterator of bytes without end."""

    def __init__(self, answer):
        self.answer, self.listener = answer, socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        try:
            with peer:
                peer.settimeout(20)
                head = b""
                while b"\r\n\r\n" not in head:
                    part = peer.recv(1 << 16)
                    if not part:
                        return
                    head += part
                for part in self.answer(head.decode("latin-1")):
                    peer.sendall(part)
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


def reply(status="200 OK", lines="", body=b""):
    return [("HTTP/1.1 %s\r\nConnection: close\r\n%s\r\n" % (status, lines)).encode("latin-1") + body]


def without_end(first, more):
    yield first
    for _ in range(1 << 14):
        yield more


def lying_server():
    """What a file's server may answer."""
    length = "Content-Length: %d\r\n"
    whole = b"w" * 1000

    def either(head_lines, lines, body, status="200 OK", head_status="200 OK"):
        return lambda head: reply(head_status, head_lines) if head.startswith("HEAD") else reply(status, lines, body)

    def part(named):
        return either("Accept-Ranges: bytes\r\nETag: \"a\"\r\n" + length % 1000, "Content-Range: bytes %s\r\n" % named + length % 1000,
                      whole, "206 Partial Content")

    def moved(location):
        return lambda head: reply("302 Found", "Location: %s\r\n" % location + length % 0)

    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n"
    lies = {
        "part of another range": part("500-1499/1000"), "longer than it says": either(length % 10, length % 10, whole),
        "part of another total": part("0-999/99999"), "part that overflows": part("0-18446744073709551615/1000"),
        "gzip that nobody asked for": either(length % 1000, "Content-Encoding: gzip\r\n" + length % 1000, whole),
        "shorter": either(length % 1000, length % 1000, whole[:500]),
        "length of 2^63": either(length % 2**63, length % 2**63, whole),
        "length of 2^64": either(length % 2**64, length % 2**64, whole),
        "two lengths": either(length % 1000, length % 1000 + length % 5, whole),
        "chunks and a length": either(length % 5, "Transfer-Encoding: chunked\r\n" + length % 5, b"fff\r\n" + whole),
        "chunk of 2^64": either("Transfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\n", b"ffffffffffffffffff\r\nx"),
        "head of 10 MB": lambda head: without_end(endless + b"X: ", b"y" * 1024),
        "lines without end": lambda head: without_end(endless, b"X: y\r\n" * 100),
        "interim answers without end": lambda head: without_end(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        "redirection to file:": moved("file:///etc/passwd"), "redirection to gopher:": moved("gopher://127.0.0.1/"),
        "redirection in a circle": moved("/file"), "redirection with CR LF": moved("/a%0d%0aHost:%20evil"),
        "redirection to nothing": moved(""), "status 999": lambda head: reply("999 Odd"), "no HTTP": lambda head: [b"SSH-2.0-x\r\n"],
        "nothing": lambda head: [], "version 9": lambda head: [b"HTTP/9.9 200 OK\r\n\r\n"],
        "ESC in the reason": lambda head: reply("500 \x1b[2J\x07" + "x" * 5000),
    }
    for what, answer in lies.items():
        out = at("got")
        os.makedirs(out)
        with Liar(answer) as liar:
            ended = run("get", "http://127.0.0.1:%d/file" % liar.port, "--output", out, "--timeout", "1s", "--no-save")
        # A longer body than was said is cut off where it was said to end.
        yield from sound(what, ended, refused=what != "longer than it says")
        named = [name for name in os.listdir(out) if not name.startswith(".")]
        if named and what != "longer than it says":
            yield "%s: %s was named" % (what, named)
        shutil.rmtree(out)
    yield len(lies)


def hostile_names():
    """Names in a list, on the screen and in the folder."""
    names = ["\x1b[2J", "\u202egpj.exe", "a\nb", "a\rb", "\x07", "\x7f", "\u2066x", "x" * 5000, ".", "..", "a/b", "/a", "a\x00b"]
    for number, name in enumerate(names):
        entry = {"name": name, "href": "".join("%%%02x" % byte for byte in name.encode()), "kind": "file", "bytes": 1}
        text = json.dumps({"entries": [entry]}).encode()
        lines = "Linerate: list\r\nContent-Length: %d\r\n" % len(text)
        os.makedirs(at("names/got"))
        with Liar(lambda head: reply(lines=lines, body=b"" if head.startswith("HEAD") else text)) as liar:
            url = "http://127.0.0.1:%d/" % liar.port
            ended = run("get", url, "--output", at("names/got"), "--timeout", "1s", "--no-save")
        # An odd name may be a file's, and is shown without what is odd; one that is no file's name may not.
        yield from sound(repr(name[:20]), ended, refused=number >= 7)
        if os.listdir(at("names")) != ["got"]:
            yield "%r: written outside" % name[:20]
        shutil.rmtree(at("names"))
    yield len(names)


def lying_store():
    """What an S3 store may answer to a list."""
    entry = "<Contents><Key>%s</Key><Size>%s</Size><ETag>\"a\"</ETag></Contents>"
    one = "<ListBucketResult>%s</ListBucketResult>"
    bomb = "<!DOCTYPE a [<!ENTITY a0 \"x\">%s]>" % "".join("<!ENTITY a%d \"%s\">" % (n + 1, ("&a%d;" % n) * 10) for n in range(9))
    circle = "<IsTruncated>true</IsTruncated><NextContinuationToken>a</NextContinuationToken>"
    lists = {
        "entity bomb": bomb + one % "&a9;", "outside entity": "<!DOCTYPE a [<!ENTITY b SYSTEM \"file:///etc/passwd\">]>" + one % "&b;",
        "150,000 deep": "<a>" * 150000, "circle of pages": one % circle, "key of 100 kB": one % (entry % ("set/" + "k" * 100000, 1)),
        "size of 2^64": one % (entry % ("set/a", 2**64)), "size of -1": one % (entry % ("set/a", -1)),
        "..": one % (entry % ("set/../../evil", 1)), "/ in front": one % (entry % ("set//etc/evil", 1)),
        "side file": one % (entry % ("set/.x.linerate-part", 1)), "journal": one % (entry % ("set/.x.linerate-journal", 1)),
        "file that is a folder": one % (entry % ("set/a", 1) + entry % ("set/a/b", 1)),
        "another prefix": one % (entry % ("other/evil", 1)), "message of 200 kB": "<Error><Message>%s</Message></Error>" % ("\x1b[2J" * 50000),
        "not UTF-8": "\xff\xfe<a>",
    }
    keys = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret-9d2e", "AWS_REGION": "us-east-1"}
    for what, text in lists.items():
        body = text.encode("latin-1", "replace")
        answer = lambda head: reply(lines="Content-Type: application/xml\r\nContent-Length: %d\r\n" % len(body), body=body)
        os.makedirs(at("store/got"))
        with Liar(answer) as liar:
            keys["AWS_ENDPOINT_URL"] = "http://127.0.0.1:%d" % liar.port
            words = ["get", "s3://b/set/", "--output", at("store/got")]
            ended = run(*words, "--timeout", "1s", "--no-save", **keys)
        yield from sound(what, ended)
        if "secret-9d2e" in ended[1]:
            yield "%s: the secret is on the screen" % what
        if os.listdir(at("store")) != ["got"]:
            yield "%s: written outside" % what
        shutil.rmtree(at("store"))
    yield len(lists)


def ssh_options():
    """Host names that are options or words for a shell."""
    mark = at("injected")
    write(at("token-of-fleet"), TOKEN)
    hosts = ["-oProxyCommand=touch %s" % mark, "h;touch %s" % mark, "$(touch %s)" % mark, "`touch %s`" % mark, "h\ntouch %s" % mark]
    for host in hosts:
        for words in (["copy", host + ":/file", "."], ["fleet", "--hosts", host], ["run", "--peer", "ssh://" + host]):
            yield from sound("%s %r" % (words[0], host[:24]), run(*words, timeout=40))
        if os.path.exists(mark):
            yield "%r was carried out" % host
    yield 3 * len(hosts)


def kept_results():
    """What others, or a broken disk, may have laid among the kept results."""
    results = at("state/linerate/results")
    os.makedirs(results, mode=0o700, exist_ok=True)
    vast = lambda path: open(path, "w").truncate(1 << 40)
    esc = lambda path: write(path, json.dumps({"schema": 2, "host": "\x1b[2J", "started": "\x1b", "goal": {}}))
    makers = [
        lambda path: os.symlink("/etc/shadow", path), os.mkfifo, os.mkdir, vast, esc,
        lambda path: write(path, "[" * 200000), lambda path: write(path, "{\"a\":" * 200000), lambda path: write(path, b"\xff" * 100),
        lambda path: write(path, "{\"schema\":18446744073709551614}"),
    ]
    if os.geteuid() == 0:
        makers.append(lambda path: (write(path, "{}"), os.chown(path, 65534, 65534)))
    for number, make in enumerate(makers):
        make("%s/%06d.json" % (results, number + 1))
        for words in (["list"], ["check", "@-1"], ["report", "@-1"], ["compare", "@-1", "@-1"]):
            yield from sound("%s of number %d" % (words[0], number + 1), run(*words), refused=False)
    shutil.rmtree(at("state"))
    os.makedirs(at("state"))
    yield len(makers)


ROWS = [
    ("paths", paths), ("folder swapped with a link out while serving", swapped_folder), ("request smuggling", smuggling),
    ("ranges and sums beyond all numbers", ranges), ("clients that stop in the middle of a PUT", stopped_puts),
    ("TLS versions and trust", tls), ("a server that lies", lying_server), ("hostile names in a list", hostile_names),
    ("an S3 store that lies", lying_store), ("ssh option and shell injection", ssh_options), ("kept results", kept_results),
]


def main():
    os.makedirs(at("data/sub"))
    os.makedirs(at("state"))
    write(at("outside"), CANARY)
    write(at("data/file"), "inside")
    write(at("data/sub/secret"), "below")
    write(at("token"), TOKEN + "\n")
    through = 0
    for name, attack in ROWS:
        found = list(attack())
        # The last is how many were tried.
        tried, bad = found.pop(), found
        through += len(bad)
        print("| %s | %d | %s |" % (name, tried, "nothing got through" if not bad else "**%d**: %s" % (len(bad), "; ".join(bad[:4]))), flush=True)
    sys.exit(1 if through else 0)


main()
