"""A conversation that goes on in two ways: a fork shares what was said before.

Run it: python examples/branch_conversation.py
"""

import tempfile
from pathlib import Path

import aof2


def main() -> None:
    """Talk, branch, and talk on in both."""
    with tempfile.TemporaryDirectory() as directory:
        with aof2.Aof.open(Path(directory, "talk")) as talk:
            talk.append_many(
                [b"user: plan a trip", b"bot: by train or by boat?", b"user: by train"]
            )
            talk.append(b"bot: then to the mountains")

            # Before the third message, which the user wants to say differently.
            fork = talk.fork("talk-boat", at=2)
            with aof2.Aof.open(fork.path) as other:
                other.append(b"user: by boat")
                other.append(b"bot: then to the islands")
                other.flush()
                for log in (talk, other):
                    print(f"{log.name}:")
                    for record in log.scan(visibility="appended"):
                        print(f"  {record.offset} {bytes(record).decode()}")

                # The first two messages are there once: both logs read the same segment.
                shared = [s for s in other.segments() if s.stream_id == talk.stream_id]
                print("records shared:", sum(s.record_count for s in shared))

        for node in aof2.Root(directory).tree():
            origin = f"from {node.parent_name} at {node.fork_offset}" if node.parent_name else "-"
            print(f"{node.name:<10} {origin}")


if __name__ == "__main__":
    main()
