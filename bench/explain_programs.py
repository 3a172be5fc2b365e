"""Programs of bench/explain and of the lab's tests that no package has.

get URL RATE              a client that gets it over and over, RATE bytes per second (0: all it can get, at no cost)
sink ADDRESS PORT RATE    a server that takes what one connection brings
serve ADDRESS PORT FILE   a server that sends the file over and over, at little cost
copy ADDRESS PORT         a loader that gets from there, in one task, and copies all of it twice
sum ADDRESS PORT          a sender in one thread, which sums each block up many times before it sends it
read FILE BYTES           a loader that reads past the page cache, one block at a time
pace FILE BYTES RATE      the same at a rate of its own, bytes per second
map FILE touch|sum        a loader that maps the file, and reads it page by page or sums it up
threads FILE COUNT        a loader that reads and sums the file up in so many threads
"""

import mmap
import os
import socket
import sys
import threading
import time
import zlib
from urllib.parse import urlsplit


def drain(connection, rate):
    """Takes all; without a rate the kernel throws it away uncopied (MSG_TRUNC), so that the client is never the limit."""
    buffer = bytearray(1 << 20)
    while True:
        if rate == 0:
            taken = connection.recv_into(buffer, len(buffer), socket.MSG_TRUNC)
        else:
            taken = connection.recv_into(buffer, 65536)
            time.sleep(taken / rate)
        if taken == 0:
            return


def connected(address, port):
    """As soon as somebody listens there."""
    while True:
        try:
            return socket.create_connection((address, port))
        except ConnectionRefusedError:
            time.sleep(0.05)


def get(url, rate):
    parts = urlsplit(url)
    request = f"GET {parts.path} HTTP/1.0\r\nHost: {parts.netloc}\r\nAccept-Encoding: gzip\r\n\r\n".encode()
    while True:
        with connected(parts.hostname, parts.port) as connection:
            connection.sendall(request)
            drain(connection, rate)


def sink(address, port, rate):
    with socket.create_server((address, port)) as listener:
        connection, _ = listener.accept()
        drain(connection, rate)


def serve(address, port, path):
    with socket.create_server((address, port)) as listener, open(path, "rb") as file:
        connection, _ = listener.accept()
        while True:
            offset = 0
            while sent := os.sendfile(connection.fileno(), file.fileno(), offset, 1 << 20):
                offset += sent


def copy(address, port):
    with connected(address, port) as connection:
        while True:
            sample = bytearray()
            while len(sample) < 8 << 20:
                sample += connection.recv(1 << 18)
            bytes(bytes(memoryview(sample)[1:]))


def sum_and_send(address, port):
    block = bytes(range(256)) * 1024
    with connected(address, port) as connection:
        while True:
            for _ in range(20):
                zlib.crc32(block)
            connection.sendall(block)


def read_blocks(path, size, rate=0):
    file, block = os.open(path, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, size)
    due = time.monotonic()
    while True:
        offset = 0
        while os.preadv(file, [block], offset) == size:
            offset += size
            if rate:
                due += size / rate
                time.sleep(max(0.0, due - time.monotonic()))


def sum_in_threads(path, count):
    def work():
        file = os.open(path, os.O_RDONLY)
        while True:
            offset = 0
            while block := os.pread(file, 1 << 20, offset):
                zlib.crc32(block)
                offset += len(block)

    for _ in range(count):
        threading.Thread(target=work).start()


def map_file(path, does):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        while True:
            if does == "sum":
                zlib.crc32(data)
                continue
            for offset in range(0, len(data), mmap.PAGESIZE):
                data[offset]
            data.madvise(mmap.MADV_DONTNEED)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


match sys.argv[1:]:
    case ["get", url, rate]:
        get(url, int(rate))
    case ["sink", address, port, rate]:
        sink(address, int(port), int(rate))
    case ["serve", address, port, path]:
        serve(address, int(port), path)
    case ["copy", address, port]:
        copy(address, int(port))
    case ["sum", address, port]:
        sum_and_send(address, int(port))
    case ["read", path, size]:
        read_blocks(path, int(size))
    case ["pace", path, size, rate]:
        read_blocks(path, int(size), int(rate))
    case ["threads", path, count]:
        sum_in_threads(path, int(count))
    case ["map", path, does]:
        map_file(path, does)
    case _:
        sys.exit(__doc__)
