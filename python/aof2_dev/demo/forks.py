"""The step of the demo that branches the log."""

from pathlib import Path
from time import perf_counter

import aof2

from aof2_dev.demo.events import event
from aof2_dev.demo.screen import Screen


def fork_and_go_on(screen: Screen, path: Path, event_count: int) -> int:
    """Fork the log, append to both, show the tree, drop the fork; give the number of events."""
    screen.step("The log is forked in the middle, and both go their own way")
    middle = event_count // 2
    root = aof2.Root(path.parent)
    started = perf_counter()
    made = root.fork(path.name, "what-if", at=middle)
    seconds = perf_counter() - started
    screen.say(f"Forked at event {middle:,} in {seconds * 1e3:.1f} ms; nothing was copied.")
    with aof2.Aof.open(path, tiers=aof2.Tiers()) as log, aof2.Aof.open(made.path) as fork:
        log.snapshot("before")
        log.append(event(event_count))
        log.flush()
        fork.append(b"what if")
        fork.flush()
        intact = all(bytes(record) == event(record.offset) for record in fork.scan(end=middle))
        screen.claim(
            intact and bytes(fork.read_offset(middle)) == b"what if",
            f"the fork has the first {middle:,} events of the log, and then one of its own",
        )
        screen.claim(
            all(bytes(log.read_offset(n)) == event(n) for n in (middle, event_count)),
            "the log has its own events, and goes on with the next one",
        )
        log.seal()
    _show(screen, root.tree(), path.name)
    root.drop_snapshot(path.name, "before")
    screen.claim(
        root.drop("what-if") == [] and len(root.tree().forks_of(log.stream_id)) == 0,
        "the fork is dropped, and the log is as if there had been none",
    )
    return event_count + 1


def _show(screen: Screen, tree: aof2.LogTree, name: str) -> None:
    # The copy that an earlier step damaged has the same id.
    log = next(node for node in tree if node.name == name)
    screen.say(f"  [bold]{log.name}[/]")
    for taken in log.snapshots:
        screen.say(f"    @{taken.name} at event {taken.offset:,}")
    for fork in tree.forks_of(log.stream_id):
        screen.say(f"    [bold]{fork.name}[/], forked at event {fork.fork_offset or 0:,}")
