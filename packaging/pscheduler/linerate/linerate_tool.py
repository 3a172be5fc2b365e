"""What the executables of the pScheduler tool "linerate" share: reading a test, running linerate, giving its
figures the test's names. Of the standard library alone, so that it is tested without pScheduler."""

import configparser
import datetime
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

CONFIG_FILE = "/etc/pscheduler/tool/linerate.conf"
PORT = 7411
THROUGHPUT_SECONDS = 10
TRANSFER_SECONDS = 60
# Connecting and the way up to the full rate, before the first window; as iperf3's tool of pScheduler counts it, one
# second more for each 50 ms of the round trip.
SETUP_SECONDS = 5
SECONDS_PER_RTT_SECOND = 20
# A window shorter than this shows bursts and no rate.
SHORTEST_WINDOW_SECONDS = 0.5
LARGEST_SCHEMA = {"throughput": 7, "disk-to-disk": 1}

SUPPORTED = {
    "throughput": {
        "schema", "source", "source-node", "dest", "dest-node", "duration", "interval", "link-rtt", "parallel",
        "udp", "bandwidth", "window-size", "buffer-length", "ip-version", "congestion", "zero-copy", "reverse",
    },
    "disk-to-disk": {"schema", "parallel", "host", "source", "dest", "duration", "timeout", "cleanup"},
}

def read():
    """The JSON on standard input."""
    try:
        return json.load(sys.stdin)
    except ValueError as error:
        fail(f"The input is no JSON: {error}")


def succeed(value):
    """Prints a result and ends."""
    print(json.dumps(value))
    sys.exit(0)


def fail(sentence):
    """Ends in the way that pScheduler takes for a fault of the tool."""
    print(sentence, file=sys.stderr)
    sys.exit(1)


def config():
    """Program and port, of the configuration file where there is one."""
    found = {"program": "linerate", "port": PORT}
    parser = configparser.ConfigParser()
    try:
        parser.read(os.environ.get("LINERATE_PSCHEDULER_CONFIG", CONFIG_FILE))
        found["program"] = parser.get("linerate", "program", fallback=found["program"])
        found["port"] = parser.getint("linerate", "port", fallback=found["port"])
    except (configparser.Error, ValueError, OSError) as error:
        fail(f"{CONFIG_FILE} cannot be used: {error}")
    return found


DURATION = re.compile(
    r"P(?:(\d+(?:\.\d+)?)W)?(?:(\d+(?:\.\d+)?)D)?"
    r"(?:T(?=\d)(?:(\d+(?:\.\d+)?)H)?(?:(\d+(?:\.\d+)?)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)


def seconds_of(duration):
    """Seconds of an ISO 8601 duration without months and years."""
    match = DURATION.fullmatch(duration) if isinstance(duration, str) else None
    if match is None or not any(match.groups()):
        raise ValueError(f"{duration}: not a duration such as PT10S")
    units = (604800, 86400, 3600, 60, 1)
    return sum(float(part) * unit for part, unit in zip(match.groups(), units) if part)


def duration_of(seconds):
    """The shortest form of a duration, to a millisecond."""
    return f"PT{round(seconds, 3):g}S" if seconds < 1e5 else f"PT{seconds:.0f}S"


def is_url(place):
    return urllib.parse.urlsplit(place).scheme in ("http", "https")


def path_of(place):
    """A path, of file:// or as it is."""
    parts = urllib.parse.urlsplit(place)
    return urllib.parse.unquote(parts.path) if parts.scheme == "file" else place


def reasons_against(test):
    """Why this tool cannot run a test; empty where it can."""
    kind, spec = test.get("type"), test.get("spec")
    if kind not in SUPPORTED:
        return ["Unsupported test type" if kind else "Missing test type"]
    if not isinstance(spec, dict):
        return ["Missing test specification"]
    schema = spec.get("schema", 1)
    if not isinstance(schema, int) or schema > LARGEST_SCHEMA[kind]:
        return [f"Schema version {schema} is not supported, the largest is {LARGEST_SCHEMA[kind]}"]
    reasons = [f"linerate does not support the option {name}" for name in spec if name not in SUPPORTED[kind]]
    try:
        for name in ("duration", "interval", "link-rtt", "timeout"):
            if name in spec:
                seconds_of(spec[name])
    except ValueError as error:
        reasons.append(str(error))
    if kind == "throughput":
        if spec.get("udp") and (spec.get("congestion") or spec.get("zero-copy")):
            reasons.append("congestion and zero-copy are of TCP")
    else:
        reasons += reasons_against_places(spec)
    return reasons


def reasons_against_places(spec):
    places = [spec.get("source", ""), spec.get("dest", "")]
    urls = [is_url(place) for place in places]
    local = [path_of(place) for place, url in zip(places, urls) if not url]
    if sum(urls) != 1:
        return ["One of source and dest must be a URL of http or https, the other one a file of the host"]
    if not local[0].startswith("/"):
        return ["The file of the host needs an absolute path"]
    return []


def window(spec):
    """Seconds of one window, and how many make the duration."""
    whole = seconds_of(spec["duration"]) if "duration" in spec else THROUGHPUT_SECONDS
    each = seconds_of(spec["interval"]) if "interval" in spec else 1.0
    each = min(max(each, SHORTEST_WINDOW_SECONDS), max(whole, SHORTEST_WINDOW_SECONDS))
    return each, max(1, round(whole / each))


def setup_seconds(spec):
    rtt = seconds_of(spec["link-rtt"]) if "link-rtt" in spec else 0.0
    return SETUP_SECONDS + rtt * SECONDS_PER_RTT_SECOND


def duration_seconds(test):
    """How long a run takes at most."""
    spec = test["spec"]
    if test["type"] == "disk-to-disk":
        limit = spec.get("timeout", spec.get("duration"))
        return seconds_of(limit) if limit else TRANSFER_SECONDS
    each, count = window(spec)
    return each * count + setup_seconds(spec)


def participant_data(participant):
    """The receiver makes a key for this run: only who has the data of the run may measure. A name that begins with _
    is shown to nobody else."""
    if participant == 0:
        return {"schema": 1}
    if participant == 1:
        return {"schema": 1, "port": config()["port"], "_key": secrets.token_hex(32)}
    fail("Invalid participant number for this test")


def address(host, ip_version):
    """A host's address of the version that was asked for; the host itself where none was."""
    if ip_version is None:
        return host
    family = socket.AF_INET if ip_version == 4 else socket.AF_INET6
    return socket.getaddrinfo(host, None, family)[0][4][0]


def with_port(host, port):
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def network_words(spec, port):
    """The words of `linerate network` for a test."""
    each, count = window(spec)
    udp = spec.get("udp", False)
    words = ["network", "--peer", with_port(address(spec["dest"], spec.get("ip-version")), port)]
    words += ["--protocol", "udp" if udp else "tcp"]
    words += ["--direction", "receive" if spec.get("reverse") else "send"]
    words += ["--seconds", f"{each:g}", "--repeats", str(count), "--no-latency", "--no-save"]
    words += ["--json"]
    if not udp:
        words += ["--method", "zerocopy" if spec.get("zero-copy") else "write"]
    options = [("parallel", "--streams"), ("bandwidth", "--rate"), ("congestion", "--congestion-control")]
    options += [("window-size", "--window")]
    options += [("buffer-length", "--datagram" if udp else "--write")]
    for name, option in options:
        if name in spec:
            words += [option, str(spec[name])]
    return words


def start_of(schedule):
    """The time that all participants begin at."""
    return datetime.datetime.fromisoformat(schedule["start"].replace("Z", "+00:00"))


def wait_until(begin):
    now = datetime.datetime.now(begin.tzinfo)
    time.sleep(max(0.0, (begin - now).total_seconds()))


def run_linerate(words, timeout, key=None):
    """Exit status, standard output and what was said of errors."""
    environment = dict(os.environ, **({"LINERATE_KEY": key} if key else {}))
    try:
        done = subprocess.run([config()["program"], *words], env=environment, capture_output=True, text=True,
                              timeout=timeout, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return 1, "", f"linerate did not end within {timeout:.0f} s"
    except OSError as error:
        return 3, "", f"linerate cannot be started: {error}; is it installed, or named in {CONFIG_FILE}?"
    return done.returncode, done.stdout, done.stderr.strip()


def figures(start, end, bytes_per_second):
    """A rate from one second of the test to another."""
    return {
        "start": start,
        "end": end,
        "throughput-bytes": round(bytes_per_second * (end - start)),
        "throughput-bits": bytes_per_second * 8.0,
    }


def counted(stream, seconds):
    """Packets, losses and round trips of a stream. Datagrams are counted from its first to its last one; the result
    has the share of the windows."""
    if not stream.get("sent_datagrams"):
        tcp = stream.get("tcp") or {}
        names = {"retransmits": "retransmits", "tcp-window-size": "congestion_window_bytes", "rtt": "rtt_micros"}
        return {name: tcp[key] for name, key in names.items() if key in tcp}
    share = min(1.0, stream["bytes_per_second"] * seconds / max(stream["received_bytes"], 1))
    return {
        "sent": int(stream["sent_datagrams"] * share),
        "lost": int(stream["lost"] * share),
        "jitter": stream["jitter_seconds"] * 1e3,
    }


def network_measurement(text):
    """The one measurement in the JSON of `linerate network --json`."""
    measured = [one for one in json.loads(text)["measurements"] if one.get("streams")]
    if not measured:
        raise ValueError("nothing was measured")
    return measured[0]


def throughput_result(measurement):
    """The result of the test "throughput" of a measurement."""
    streams, seconds = measurement["streams"]["streams"], measurement["seconds"]
    count = min(len(stream["samples"]) for stream in streams)
    intervals = []
    for number in range(count):
        times = (seconds * number / count, seconds * (number + 1) / count)
        rates = [stream["samples"][number] for stream in streams]
        each = [{"stream-id": place, **figures(*times, rate)} for place, rate in enumerate(rates, 1)]
        intervals.append({"streams": each, "summary": figures(*times, sum(rates))})
    each = [
        {"stream-id": place, **figures(0, seconds, stream["bytes_per_second"]), **counted(stream, seconds)}
        for place, stream in enumerate(streams, 1)
    ]
    summary = figures(0, seconds, sum(stream["bytes_per_second"] for stream in streams))
    summary["receiver-throughput-bits"] = summary["throughput-bits"]
    for name in ("sent", "lost", "retransmits"):
        if all(name in one for one in each):
            summary[name] = sum(one[name] for one in each)
    return {"intervals": intervals, "summary": {"streams": each, "summary": summary}}


def failed_throughput(sentence, diags):
    empty = {"streams": [], "summary": {}}
    return {"succeeded": False, "error": sentence, "diags": diags, "intervals": [], "summary": empty}


def run_client(spec, other, timeout):
    words = network_words(spec, other["port"])
    diags = " ".join(["linerate", *words])
    status, out, err = run_linerate(words, timeout, other["_key"])
    # 1: something failed on the way; what there is may be whole all the same.
    try:
        measurement = network_measurement(out)
        result = throughput_result(measurement)
    except (ValueError, KeyError, TypeError):
        return failed_throughput(err or f"linerate ended with {status} and without figures", diags)
    result.update(succeeded=status == 0, diags=f"{diags}\n\n{json.dumps(measurement)}")
    if status:
        result["error"] = err or f"linerate ended with {status}"
    return result


def run_server(own, seconds):
    """The agent, for as long as the run takes: it does not know when the client has done."""
    words = ["agent", "--listen", str(own["port"])]
    diags = " ".join(["linerate", *words])
    environment = dict(os.environ, LINERATE_KEY=own["_key"])
    with tempfile.TemporaryFile() as said:
        try:
            agent = subprocess.Popen([config()["program"], *words], env=environment, stdin=subprocess.DEVNULL,
                                     stdout=said, stderr=subprocess.STDOUT)
        except OSError as error:
            return failed_throughput(f"linerate cannot be started: {error}", diags)
        try:
            agent.wait(seconds)
            early = True
        except subprocess.TimeoutExpired:
            early = False
            agent.send_signal(signal.SIGINT)
            try:
                agent.wait(5)
            except subprocess.TimeoutExpired:
                agent.kill()
                agent.wait()
        said.seek(0)
        text = said.read().decode("utf-8", "replace").replace(own["_key"], "…")
    if early:
        return failed_throughput(f"the agent ended at once: {text.strip()}", diags)
    empty = {"streams": [], "summary": {}}
    return {"succeeded": True, "diags": f"{diags}\n\n{text}", "intervals": [], "summary": empty}


def transfer(spec, timeout):
    """Fetches or puts one file; gives the result of the test "disk-to-disk"."""
    began = time.monotonic()
    if is_url(spec["source"]):
        sentence, answer, diags = fetch(spec, timeout)
    else:
        sentence, answer, diags = put(spec, timeout)
    measured = [one["seconds"] for one in answer.get("measurements", [])]
    seconds = measured[0] if measured else time.monotonic() - began
    result = {"schema": 1, "succeeded": not sentence, "time": duration_of(seconds), "diags": diags}
    if sentence:
        result["error"] = sentence
    moved = answer.get("transfer", {}).get("moved_bytes")
    if moved is not None:
        # The schema wants a number with a fraction.
        result["bytes-sent"] = float(moved)
        result["throughput"] = moved * 8.0 / seconds if seconds > 0 else 0.0
    return {"succeeded": result["succeeded"], "error": sentence, "diags": diags, "result": result}


def streams(spec):
    return ["--streams", str(spec["parallel"])] if "parallel" in spec else []


def answered(words, timeout):
    status, out, err = run_linerate(words, timeout)
    diags = "\n".join([" ".join(["linerate", *words]), out, err])
    try:
        answer = json.loads(out)
    except ValueError:
        answer = {}
    sentence = "" if status == 0 else err or "; ".join(answer.get("errors", [])) or f"linerate ended with {status}"
    return sentence, answer, diags


def fetch(spec, timeout):
    """Into a folder beside the file, whose name it gets once it is whole; nothing that is there is replaced."""
    dest = path_of(spec["dest"])
    if os.path.lexists(dest):
        return f"{dest}: is there already; linerate replaces nothing", {}, ""
    try:
        folder = tempfile.mkdtemp(prefix=".linerate-", dir=os.path.dirname(dest))
    except OSError as error:
        return f"{dest}: cannot be made: {error}", {}, ""
    try:
        words = ["get", spec["source"], "--output", folder, "--json", "--no-save", *streams(spec)]
        sentence, answer, diags = answered(words, timeout)
        fetched = [one for one in answer.get("transfer", {}).get("files", []) if one.get("outcome") == "fetched"]
        if not sentence and len(fetched) != 1:
            sentence = "the URL is a folder; name a file"
        if not sentence and not spec.get("cleanup", True):
            os.link(fetched[0]["path"], dest)
        return sentence, answer, diags
    except OSError as error:
        return f"{dest}: cannot be made: {error}", {}, ""
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put(spec, timeout):
    """What was put stays on the server: linerate removes nothing."""
    words = ["put", path_of(spec["source"]), spec["dest"], "--json", "--no-save", *streams(spec)]
    return answered(words, timeout)


def run(given):
    """One participant's part of a run."""
    try:
        test, participant, data = given["test"], given["participant"], given["participant-data"]
        kind, spec = test["type"], test["spec"]
        begin = start_of(given["schedule"])
        seconds = duration_seconds(test)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        fail(f"The input of a run lacks something: {error}")
    wait_until(begin)
    if kind == "disk-to-disk":
        return transfer(spec, seconds)
    if len(data) != 2:
        fail(f"linerate needs two participants for a throughput test, not {len(data)}")
    if participant == 0:
        # The agent of the other host may begin a moment later.
        time.sleep(1)
        return run_client(spec, data[1], seconds)
    return run_server(data[1], seconds)


def merged(given):
    """The result of the test, of those of its participants."""
    test, results = given["test"], given["results"]
    first = results[0] or {}
    if test["type"] == "disk-to-disk":
        return first.get("result", first)
    result = first or failed_throughput("the source gave no result", "")
    said = [one.get("diags", "") if one else "no result" for one in results]
    result["diags"] = "\n".join(f"Participant {number}:\n{text}\n" for number, text in enumerate(said))
    failed = [one["error"] for one in results[1:] if one and one.get("error")]
    if failed and not result.get("succeeded"):
        result["error"] = "; ".join([result.get("error", ""), *failed]).strip("; ")
    return result
