"""Try a migration on a fork of the real data, look at the result, throw it away.

Run it: python examples/trial_migration.py
"""

import json
import tempfile
from pathlib import Path

import aof2


def migrate(log: aof2.Aof) -> tuple[int, int]:
    """Append every old order in the new form; give how many worked and how many did not."""
    done = failed = 0
    for record in log.scan(end="now"):
        order = json.loads(bytes(record))
        try:
            cents = round(float(order["price"]) * 100)
        except ValueError:
            failed += 1
            continue
        log.append(json.dumps({"version": 2, "id": order["id"], "cents": cents}).encode())
        done += 1
    log.flush()
    return done, failed


def main() -> None:
    """Fork the orders, migrate the fork, and drop it."""
    with tempfile.TemporaryDirectory() as directory:
        root = aof2.Root(directory)
        prices = ["1.50", "20", "free", "3.99"]
        with aof2.Aof.open(Path(directory, "orders")) as orders:
            for number, price in enumerate(prices):
                orders.append(json.dumps({"id": number, "price": price}).encode())

            # The writer of the log need not stop for it.
            with aof2.Aof.open(root.fork(orders, "trial").path) as trial:
                print("migrated, failed:", migrate(trial))
                print("records of the trial:", trial.watermarks().durable)
            print("records of the log:  ", orders.watermarks().durable)

            # It would lose an order. Nothing happened.
            held = root.drop("trial")
            print("dropped; still read by:", held)
            print("logs:", [node.name for node in root.tree()])


if __name__ == "__main__":
    main()
