#!/usr/bin/python3
"""A virt driver for Berth in Python, with nothing but the standard library.

Berth starts it with `compute_driver = "exec:/path/to/driver.py"` and speaks version 1 of the protocol of
docs/guide/reference/exec-driver.md with it: JSON-RPC 2.0, one message a line.

It drives no hypervisor. Its machine is a file, `machine.json` in the directory that `hello` names: the answer to `observe`
without guests. Edit it, and the machine has changed. What Berth makes on the machine is kept in `guests.json` beside it,
which is replaced in one step, so that a kill at any moment leaves the old one or the new one. To drive a real hypervisor,
replace the two classes Machine and Book; the rest can stay.

It passes the conformance suite that the drivers in Berth pass (drivers/exec/tests/sample_driver.rs).
"""

import json
import os
import socket
import sys
import threading
import time

PROTOCOL = 1
NAME, VERSION = "example", "1.0"

# The protocol's error codes that this driver says.
OBSERVE_MALFORMED, OBSERVE_UNREADABLE = 1004, 1005
HOLDS_DEVICES, NOT_OFF, NOT_RUNNING, UNSUPPORTED = 2001, 2002, 2003, 2004
DEVICE_BUSY, DEVICE_MISSING, ANOTHER, NAME_TAKEN, WRONG_STATE = 2007, 2008, 2010, 2011, 2012
REFUSED, GUEST_MALFORMED, GUEST_STATE = 2013, 2014, 2015
UNSEEN, MISSING, IN_USE, QUARANTINED = 3001, 3005, 3006, 3009


class Refusal(Exception):
    """An error of the protocol."""

    def __init__(self, code, message, **data):
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Unreadable(Exception):
    """A file that cannot be read, or makes no sense."""

    def __init__(self, path, message, malformed):
        super().__init__(message)
        self.path, self.message, self.malformed = path, message, malformed

    def refusal(self, family):
        """What it is called in this family of methods."""
        if family == "devices":
            return Refusal(UNSEEN, f"{self.path}: {self.message}")
        malformed, unreadable = {
            "observe": (OBSERVE_MALFORMED, OBSERVE_UNREADABLE),
            "guests": (GUEST_MALFORMED, GUEST_STATE),
        }[family]
        if self.malformed:
            return Refusal(malformed, self.message, origin=self.path)
        return Refusal(unreadable, self.message, path=self.path)


# ---- files ----------------------------------------------------------------------------------------------------------


def read_json(path):
    """A file's content; None where there is no file."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise Unreadable(path, f"it is not valid JSON: {error}", True) from error
    except OSError as error:
        raise Unreadable(path, str(error), False) from error


def write_json(path, value):
    """Whole, or not at all, also when the power goes."""
    new = path + ".new"
    try:
        with open(new, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
        folder = os.open(os.path.dirname(path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise Unreadable(path, str(error), False) from error


# ---- devices, as the protocol names them ----------------------------------------------------------------------------


def name_of(device):
    """A host's device as a text: {"function": ADDRESS} or {"mdev": UUID}."""
    (kind, value), = device.items()
    return f"PCI function {value}" if kind == "function" else f"mediated device {value}"


def host_device(device):
    """The host's device that a spec's is: {"pci": {...}}, {"mdev": {...}} or {"vendor_vfio": {...}}."""
    (kind, value), = device.items()
    return {"mdev": value["uuid"]} if kind == "mdev" else {"function": value["address"]}


def held_devices(spec):
    """What a guest of this spec holds, with the ARQs."""
    held = []
    for attached in spec["devices"]:
        origin = attached["origin"]
        arq = origin["arq"] if isinstance(origin, dict) else None
        held.append({"device": host_device(attached["device"]), "arq": arq})
    return sorted(held, key=json.dumps)


# ---- the machine ----------------------------------------------------------------------------------------------------


class Machine:
    """The facts of the host: here a file."""

    def __init__(self, folder, host):
        self.path = os.path.join(folder, "machine.json")
        self.host = host
        if not os.path.exists(self.path):
            write_json(self.path, self.example())

    def example(self):
        def gpu(address):
            return {
                "address": address,
                "vendor_id": 0x10DE,
                "product_id": 0x1EB8,
                "owner": "accelerator",
                "device_type": "GPU",
                "model": "Example T4",
                "traits": ["CUSTOM_GPU_EXAMPLE"],
                "handles": [{"function": address}],
            }

        return {
            "hypervisor": {"kind": "example", "version": VERSION, "hostname": socket.gethostname()},
            "nodes": [
                {
                    "name": self.host or socket.gethostname(),
                    "cpus": {"online": "0-7"},
                    "memory_mib": 16384,
                    "disk": {"local": {"gib": 200}},
                    "cells": [{"id": 0, "cpus": "0-7", "memory_mib": 16384}],
                    "gpus": [
                        {
                            "address": "0000:84:00.0",
                            "numa_node": 0,
                            "offered": {"mdev_type": "example-1", "class": "VGPU", "total": 2},
                        }
                    ],
                    "functions": [
                        {
                            "physical": "0000:3b:00.0",
                            "addresses": ["0000:3b:02.0", "0000:3b:02.1"],
                            "class": "SRIOV_NET_VF",
                        }
                    ],
                    "devices": [gpu("0000:81:00.0"), gpu("0000:82:00.0")],
                    "traits": ["COMPUTE_ACCELERATORS", "HW_CPU_X86_AVX2"],
                }
            ],
        }

    def read(self):
        facts = read_json(self.path)
        if not isinstance(facts, dict) or not isinstance(facts.get("nodes"), list):
            raise Unreadable(self.path, "an object with a list of nodes is wanted", True)
        return facts

    @staticmethod
    def functions(facts):
        """The addresses of all functions that guests may have."""
        found = set()
        for node in facts["nodes"]:
            found.update(gpu["address"] for gpu in node.get("gpus", []))
            for card in node.get("functions", []):
                found.update(card["addresses"])
            for device in node.get("devices", []):
                found.update(handle["function"] for handle in device["handles"] if "function" in handle)
        return found

    @staticmethod
    def unfit(facts, device):
        """Why an offered device may not be given out; None where it may."""
        for node in facts["nodes"]:
            for offered in node.get("devices", []):
                for handle in offered["handles"]:
                    same = handle == device or (
                        "mdev" in handle and handle["mdev"]["uuid"] == device.get("mdev")
                    )
                    condition = offered.get("condition", "fit")
                    if same and condition != "fit":
                        return condition["unfit"]
        return None

    @staticmethod
    def room(facts, source):
        """How many mediated devices of this parent and type there can be."""
        room = 0
        for node in facts["nodes"]:
            for gpu in node.get("gpus", []):
                offered = gpu.get("offered")
                if gpu["address"] == source["parent"] and offered and offered["mdev_type"] == source["mdev_type"]:
                    room += offered["total"]
            for device in node.get("devices", []):
                for handle in device["handles"]:
                    mdev = handle.get("mdev")
                    if mdev and all(mdev[key] == source[key] for key in ("parent", "mdev_type")):
                        room += 1
        return room


# ---- what was made --------------------------------------------------------------------------------------------------


class Book:
    """The guests that were made and the devices that were made ready: here a file."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "guests.json")

    def read(self):
        book = read_json(self.path)
        if book is None:
            return {"guests": {}, "devices": {}}
        if not isinstance(book, dict) or set(book) != {"guests", "devices"}:
            raise Unreadable(self.path, "an object of guests and devices is wanted", True)
        return book

    def write(self, book):
        write_json(self.path, book)

    @staticmethod
    def holder(book, device):
        """The guest that has a device: its UUID, or None."""
        for uuid, guest in book["guests"].items():
            if any(held["device"] == device for held in held_devices(guest["spec"])):
                return uuid
        return None


def difference(guest, spec):
    """In what a guest differs from the one a spec of its UUID asks for; None where it is that one."""
    has, wanted = held_devices(guest["spec"]), held_devices(spec)
    if has != wanted:
        listed = [", ".join(name_of(held["device"]) for held in devices) or "no devices" for devices in (has, wanted)]
        return f"it has {listed[0]}, wanted are {listed[1]}"
    if guest["spec"]["name"] != spec["name"]:
        return f"its name is {guest['spec']['name']!r}"
    if guest["spec"]["owner"]["project"] != spec["owner"]["project"]:
        return "it is another project's"
    return None


# ---- the driver -----------------------------------------------------------------------------------------------------


class Driver:
    """The methods. Each may be asked for again after its answer was lost, so what is done already is an outcome."""

    METHODS = {
        "observe": "observe",
        "guests": "guests",
        "spawn": "guests",
        "destroy": "guests",
        "power": "guests",
        "redefine": "guests",
        "suspend": "guests",
        "live_migrate": "guests",
        "check_device": "devices",
        "prepare_device": "devices",
        "reset_device": "devices",
        "prepare_host": "devices",
        "prepared_devices": "devices",
    }

    def __init__(self, params):
        folder = params["state_path"]
        self.machine = Machine(folder, params["configured"]["host"])
        self.book = Book(folder)

    def observe(self):
        facts, book = self.machine.read(), self.book.read()
        if not facts["nodes"]:
            return facts
        seen = facts["nodes"][0].setdefault("guests", [])
        for uuid, guest in book["guests"].items():
            spec = guest["spec"]
            held = [entry["device"] for entry in held_devices(spec)]
            consumer = spec["owner"]["consumer"]
            seen.append(
                {
                    "uuid": uuid,
                    "name": spec["name"],
                    "running": guest["state"] != "shut_off",
                    "also": [consumer] if consumer != uuid else [],
                    "vcpus": spec["topology"]["vcpus"],
                    "memory_mib": spec["topology"]["memory_mib"],
                    "mdevs": [{"uuid": device["mdev"]} for device in held if "mdev" in device],
                    "functions": [device["function"] for device in held if "function" in device],
                }
            )
        return facts

    def guests(self):
        listed = []
        for node in self.machine.read()["nodes"]:
            for guest in node.get("guests", []):
                devices = [{"device": {"function": address}} for address in guest.get("functions", [])]
                devices += [{"device": {"mdev": mdev["uuid"]}} for mdev in guest.get("mdevs", [])]
                state = "running" if guest["running"] else "shut_off"
                listed.append({"uuid": guest["uuid"], "name": guest["name"], "state": state, "devices": devices})
        for uuid, guest in self.book.read()["guests"].items():
            spec = guest["spec"]
            devices = held_devices(spec)
            mark = {
                "project": spec["owner"]["project"],
                "consumer": spec["owner"]["consumer"],
                "requests": [held["arq"] for held in devices if held["arq"]],
            }
            listed.append(
                {"uuid": uuid, "name": spec["name"], "state": guest["state"], "owner": mark, "devices": devices}
            )
        return {"guests": listed}

    def is_not_of_the_machine(self, uuid):
        for node in self.machine.read()["nodes"]:
            if any(guest["uuid"] == uuid for guest in node.get("guests", [])):
                raise Refusal(REFUSED, "it is written in machine.json; edit that")

    def spawn(self, spec):
        book, uuid = self.book.read(), spec["uuid"]
        facts = self.machine.read()
        there = book["guests"].get(uuid)
        if there is not None:
            differs = difference(there, spec)
            if differs is not None:
                raise Refusal(ANOTHER, differs)
            if there["state"] == spec["power"]:
                return {"outcome": "already_there"}
            if spec["power"] == "shut_off":
                raise Refusal(ANOTHER, f"it is {there['state']}, and should be off")
            there["state"] = spec["power"]
            self.book.write(book)
            return {"outcome": "spawned"}
        for guest in self.guests()["guests"]:
            if guest["uuid"] == uuid:
                raise Refusal(ANOTHER, "it was not made by berth")
            if guest["name"] == spec["name"]:
                raise Refusal(NAME_TAKEN, "the name is another's", name=spec["name"], holder=guest["uuid"])
        functions = self.machine.functions(facts)
        for held in held_devices(spec):
            device = held["device"]
            if "function" in device and device["function"] not in functions:
                raise Refusal(DEVICE_MISSING, "machine.json has no such function", device=device)
            holder = self.holder(book, facts, device)
            if holder is not None:
                raise Refusal(DEVICE_BUSY, f"{name_of(device)} is guest {holder}'s")
        book["guests"][uuid] = {"spec": spec, "state": spec["power"]}
        self.book.write(book)
        return {"outcome": "spawned"}

    def holder(self, book, facts, device):
        """The guest that has a device, of the book or of the machine."""
        for node in facts["nodes"]:
            for guest in node.get("guests", []):
                has = [{"function": address} for address in guest.get("functions", [])]
                has += [{"mdev": mdev["uuid"]} for mdev in guest.get("mdevs", [])]
                if device in has:
                    return guest["uuid"]
        return self.book.holder(book, device)

    def destroy(self, uuid):
        book = self.book.read()
        if book["guests"].pop(uuid, None) is None:
            self.is_not_of_the_machine(uuid)
            return {"outcome": "not_there"}
        self.book.write(book)
        return {"outcome": "destroyed"}

    def power(self, uuid, action, grace_seconds=None):
        book = self.book.read()
        guest = book["guests"].get(uuid)
        if guest is None:
            self.is_not_of_the_machine(uuid)
            return {"outcome": "not_there"}
        running, paused, off = "running", "paused", "shut_off"
        # What each action makes of each state; None: it is so already. What is not here cannot be done.
        becomes = {
            ("start", running): None,
            ("start", off): running,
            ("stop", running): off,
            ("stop", paused): off,
            ("stop", off): None,
            ("pause", running): paused,
            ("pause", paused): None,
            ("unpause", paused): running,
            ("unpause", running): None,
            ("soft_reboot", running): running,
            ("hard_reboot", running): running,
            ("hard_reboot", paused): running,
            ("hard_reboot", off): running,
        }
        state = guest["state"]
        if (action, state) not in becomes:
            raise Refusal(WRONG_STATE, f"it is {state}", state=state)
        new = becomes[action, state]
        if new is None:
            return {"outcome": "already_so"}
        guest["state"] = new
        self.book.write(book)
        return {"outcome": "done"}

    def redefine(self, spec):
        book = self.book.read()
        guest = book["guests"].get(spec["uuid"])
        if guest is None:
            self.is_not_of_the_machine(spec["uuid"])
            return {"outcome": "not_there"}
        differs = difference(guest, spec)
        if differs is not None:
            raise Refusal(ANOTHER, differs)
        if guest["state"] != "shut_off":
            raise Refusal(NOT_OFF, "it is not off", state=guest["state"])
        guest["spec"] = spec
        self.book.write(book)
        return {"outcome": "redefined"}

    def suspend(self, uuid):
        book = self.book.read()
        guest = book["guests"].get(uuid)
        if guest is None:
            self.is_not_of_the_machine(uuid)
            return {"outcome": "not_there"}
        holds_nothing(guest)
        if guest["state"] == "shut_off":
            raise Refusal(NOT_RUNNING, "it is off", state="shut_off")
        guest["state"] = "shut_off"
        self.book.write(book)
        return {"outcome": "done"}

    def live_migrate(self, uuid, destination):
        guest = self.book.read()["guests"].get(uuid)
        if guest is not None:
            holds_nothing(guest)
        raise Refusal(UNSUPPORTED, f"this driver has no way to {destination}")

    # Devices: check, prepare, the guest's spawn, its destroy, reset.

    def check_device(self, wanted):
        self.checked(wanted, self.machine.read(), self.book.read())
        return {}

    def checked(self, wanted, facts, book):
        device = host_device(wanted["device"])
        source = wanted.get("mdev")
        if "function" in device:
            if device["function"] not in self.machine.functions(facts):
                raise Refusal(MISSING, "machine.json has no such device")
        else:
            there = book["devices"].get(device["mdev"])
            if source is None:
                if there is None:
                    raise Refusal(MISSING, "nobody made it")
            elif there is not None:
                if there != source:
                    raise Refusal(MISSING, f"it exists as {there['mdev_type']} of {there['parent']}")
            else:
                made = sum(1 for other in book["devices"].values() if other == source)
                room = self.machine.room(facts, source)
                if room == 0:
                    raise Refusal(MISSING, f"machine.json has no {source['mdev_type']} of {source['parent']}")
                if made >= room:
                    raise Refusal(IN_USE, f"{source['parent']} has no {source['mdev_type']} left")
        cause = self.machine.unfit(facts, device)
        if cause is not None:
            raise Refusal(QUARANTINED, "machine.json says that it is unfit", cause=cause)

    def prepare_device(self, wanted):
        facts, book = self.machine.read(), self.book.read()
        self.checked(wanted, facts, book)
        device, source = host_device(wanted["device"]), wanted.get("mdev")
        if "mdev" in device and source is not None and device["mdev"] not in book["devices"]:
            book["devices"][device["mdev"]] = source
            self.book.write(book)
        return {}

    def reset_device(self, wanted):
        facts, book = self.machine.read(), self.book.read()
        device, source = host_device(wanted["device"]), wanted.get("mdev")
        holder = self.holder(book, facts, device)
        if holder is not None:
            raise Refusal(IN_USE, f"it is guest {holder}'s")
        if "function" in device:
            if device["function"] not in self.machine.functions(facts):
                raise Refusal(QUARANTINED, "machine.json has no such device", cause="vanished")
            return {"outcome": "reset", "driver": NAME}
        if device["mdev"] not in book["devices"]:
            return {"outcome": "not_there"}
        if source is None:
            return {"outcome": "left_standing"}
        del book["devices"][device["mdev"]]
        self.book.write(book)
        return {"outcome": "removed"}

    def prepare_host(self):
        return {"errors": []}

    def prepared_devices(self):
        made = self.book.read()["devices"].items()
        return {"devices": [{"wanted": {"device": {"mdev": {"uuid": uuid}}, "mdev": source}, "by": "berth"} for uuid, source in made]}


def holds_nothing(guest):
    held = held_devices(guest["spec"])
    if held:
        raise Refusal(HOLDS_DEVICES, "it holds devices", devices=held)


# ---- the conversation -----------------------------------------------------------------------------------------------


class Conversation:
    """One message a line, written whole by one thread at a time."""

    def __init__(self):
        self.driver = None
        self.writing = threading.Lock()

    def send(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        with self.writing:
            sys.stdout.write(line)
            sys.stdout.flush()

    def hello(self, params):
        if params["protocol"] != PROTOCOL:
            # Said with our version, so that Berth can tell what fits.
            return {"protocol": PROTOCOL}
        self.driver = Driver(params)
        paths = [self.driver.machine.path, self.driver.book.path]
        threading.Thread(target=self.watch, args=(paths,), daemon=True).start()
        return {
            "protocol": PROTOCOL,
            "driver": {"name": NAME, "version": VERSION},
            "methods": list(Driver.METHODS),
        }

    def watch(self, paths):
        """Tells of changes of the files, whoever made them."""

        def stamp(path):
            try:
                status = os.stat(path)
            except OSError:
                return None
            return status.st_mtime_ns, status.st_size, status.st_ino

        last = [stamp(path) for path in paths]
        while True:
            time.sleep(0.2)
            now = [stamp(path) for path in paths]
            for what, before, after in zip(("devices", "guests"), last, now):
                if before != after:
                    self.send({"method": "changed", "params": {"what": what}})
            last = now

    def answer(self, method, params):
        if method == "hello":
            return self.hello(params)
        family = Driver.METHODS.get(method)
        if family is None or self.driver is None:
            raise Refusal(-32601, f"{method} is not known")
        try:
            return getattr(self.driver, method)(**params)
        except Unreadable as error:
            raise error.refusal(family) from error

    def run(self):
        # Berth closes our standard input when it ends; so does the end of Berth.
        for line in sys.stdin:
            request = json.loads(line)
            try:
                result = self.answer(request["method"], request["params"])
                self.send({"id": request["id"], "result": result})
            except Refusal as refusal:
                error = {"code": refusal.code, "message": refusal.message}
                if refusal.data:
                    error["data"] = refusal.data
                self.send({"id": request["id"], "error": error})


if __name__ == "__main__":
    try:
        Conversation().run()
    except (BrokenPipeError, KeyboardInterrupt):
        # Nobody listens any more.
        os._exit(0)
