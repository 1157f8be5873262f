"""Append, wait and follow from asyncio tasks, without a thread per wait.

Run it: python examples/async_tasks.py
"""

import asyncio
import tempfile
from pathlib import Path

import aof2

TASKS = 50
ORDERS_PER_TASK = 4


async def main() -> None:
    """Fifty tasks append durably while another one follows the log."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "orders"
        with aof2.Aof.open(path) as log:
            total = TASKS * ORDERS_PER_TASK

            async def take_orders(task: int) -> None:
                for number in range(ORDERS_PER_TASK):
                    rid = await log.append_async(f"{task}/{number}".encode())
                    await log.flush_async(rid)  # tasks that wait together share a flush

            async def count_orders() -> int:
                seen = 0
                async for _ in log.follow("earliest"):
                    seen += 1
                    if seen == total:
                        break
                return seen

            counter = asyncio.create_task(count_orders())
            async with asyncio.TaskGroup() as group:
                for task in range(TASKS):
                    group.create_task(take_orders(task))
            print("followed:", await counter)
            print("durable: ", log.watermarks().durable)

            # The same for a batch, and for waiting until a record is durable.
            ids = await log.append_many_async([b"a", b"b", b"c"])
            await log.wait_async("durable", ids.first_offset + len(ids))
            print("batch at offsets", ids.first_offset, "to", ids.first_offset + len(ids) - 1)


if __name__ == "__main__":
    asyncio.run(main())
