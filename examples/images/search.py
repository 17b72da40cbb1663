"""Searches an image in Python: python search.py index.wasm < events

Reads one JSON object a line, and prints the ids of its matches, or why it was refused. Needs the package wasmtime. The
environment variable MEMORY limits the memory of the instance, in bytes.
"""

import os
import struct
import sys

from wasmtime import Instance, Module, Store


class Refused(Exception):
    pass


class Index:
    def __init__(self, image, memory=None):
        self.store = Store()
        if memory is not None:
            self.store.set_limits(memory_size=memory)
        exports = Instance(self.store, Module(self.store.engine, image), []).exports(self.store)
        self.memory = exports["memory"]
        self.take = exports["be_tree_inbox"]
        self.find = exports["be_tree_search"]
        self.outbox = unsigned(exports["be_tree_outbox"](self.store))

    def search(self, event):
        inbox = unsigned(self.take(self.store, len(event)))
        if inbox == 0:
            raise Refused("out_of_memory")
        self.memory.write(self.store, event, inbox)
        status = self.find(self.store, 1, len(event), -1, 0)
        address, length = struct.unpack("<2I", self.memory.read(self.store, self.outbox, self.outbox + 8))
        result = self.memory.read(self.store, address, address + length)
        if status != 0:
            # The term of an error begins with its kind.
            raise Refused(result[5 : 5 + result[4]].decode())
        # The first two numbers count visited entries and evaluated expressions.
        return list(struct.unpack(f"<{length // 8}Q", result)[2:])


def unsigned(i32):
    return i32 & 0xFFFFFFFF


def main():
    memory = os.environ.get("MEMORY")
    with open(sys.argv[1], "rb") as file:
        index = Index(file.read(), memory and int(memory))
    for line in sys.stdin.buffer:
        try:
            print("[" + ",".join(map(str, index.search(line.rstrip(b"\n")))) + "]")
        except Refused as refused:
            print(f"refused: {refused}")


main()
