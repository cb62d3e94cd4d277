"""Clients that send one byte of a request body and wait, and other callers meanwhile.

Usage: slow_clients.py PORT SECONDS CLIENTS LIMIT

The slow clients come from 127.0.0.2 and 127.0.0.3, and connect again when they are disconnected. The callers come from 127.0.0.1
and 127.0.0.4, each with a connection of its own. Prints how many callers asked, and how many were answered within LIMIT
seconds. Time in which this program does not run, because the machine does something else, does not count.
"""

import asyncio
import json
import resource
import sys

SLOW = b"POST /identity/v3/auth/tokens HTTP/1.1\r\nhost: cloud\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
CALL = b"GET /identity/v3 HTTP/1.1\r\nhost: cloud\r\nconnection: close\r\n\r\n"
ADDRESSES = ["127.0.0.2", "127.0.0.3"]
CALLERS = ["127.0.0.1", "127.0.0.4"]
# A caller gives up after so many seconds.
PATIENCE = 20
TICK = 0.05
stalled = 0.0


async def connect(port, source):
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))


async def slow(port, source):
    while True:
        try:
            reader, writer = await connect(port, source)
            writer.write(SLOW)
            await writer.drain()
            while await reader.read(4096):
                pass
            writer.close()
        except OSError:
            pass
        await asyncio.sleep(1)


async def call(port, source):
    reader, writer = await connect(port, source)
    writer.write(CALL)
    await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer.startswith(b"HTTP/1.1 200")


async def watch():
    """Adds up for how long this program did not run."""
    global stalled
    loop = asyncio.get_running_loop()
    while True:
        begun = loop.time()
        await asyncio.sleep(TICK)
        stalled += max(0, loop.time() - begun - 2 * TICK)


async def ask(port, source, limit):
    loop = asyncio.get_running_loop()
    begun, before = loop.time(), stalled
    try:
        answered = await asyncio.wait_for(call(port, source), PATIENCE)
    except (OSError, TimeoutError, asyncio.TimeoutError):
        return False
    return answered and loop.time() - begun - (stalled - before) <= limit


async def main(port, seconds, count, limit):
    watching = asyncio.create_task(watch())
    clients = [asyncio.create_task(slow(port, ADDRESSES[client % 2])) for client in range(count)]
    await asyncio.sleep(2)
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    asked = []
    while loop.time() < end:
        asked += [asyncio.create_task(ask(port, source, limit)) for source in CALLERS]
        await asyncio.sleep(0.2)
    answered = await asyncio.gather(*asked)
    for task in [watching, *clients]:
        task.cancel()
    print(json.dumps({"asked": len(answered), "answered": sum(answered), "stalled": round(stalled, 1)}))


_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])))
