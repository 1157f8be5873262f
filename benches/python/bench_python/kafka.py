"""Kafka's client for Python, confluent-kafka, which is librdkafka inside.

A broker cannot be had on one machine without installing one, so it talks to the mock
cluster that librdkafka carries: real sockets on loopback and the real protocol, in the
same process. What is measured is the client and that protocol, not Kafka. The mock keeps
a few of the last megabytes of a partition, in memory, so nothing of it can be scanned
and nothing is ever durable: those rows leave it out.
"""

from pathlib import Path
from time import perf_counter

from confluent_kafka import KafkaError, KafkaException, Producer

from bench_python.ours import expect
from bench_python.work import Work

ABOUT = (
    "the client alone, librdkafka against its built-in mock broker on loopback in the same "
    "process: not Kafka, nothing is written to disk and the broker forgets all but the last "
    "megabytes, so it is in no durable and no scanning row; one partition, acks=all, linger "
    "5 ms, no compression; the clock stops when every record is acknowledged"
)

TOPIC = "records"


def _producer(work: Work) -> Producer:
    """Make a producer that is connected and has room for all records."""

    def refuse(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            raise KafkaException(error)

    producer = Producer(
        {
            "test.mock.num.brokers": 1,
            "acks": "all",
            "linger.ms": 5,
            "compression.type": "none",
            "queue.buffering.max.messages": work.record_count,
            "queue.buffering.max.kbytes": max(work.payload_bytes >> 9, 1 << 10),
            # A record that is acknowledged needs no callback.
            "delivery.report.only.error": True,
            "on_delivery": refuse,
            # It would say that this is a mock.
            "log_level": 3,
        }
    )
    # The first record pays for connecting and for making the topic.
    producer.produce(TOPIC, b"first", partition=0)
    expect(producer.flush(60), 0)
    return producer


def append(root: Path, work: Work) -> float:  # noqa: ARG001
    payload = work.payload()
    producer = _producer(work)
    produce = producer.produce
    start = perf_counter()
    for _ in range(work.record_count):
        produce(TOPIC, payload, partition=0)
    left = producer.flush()
    seconds = perf_counter() - start
    expect(left, 0)
    return seconds


def append_many(root: Path, work: Work) -> float:  # noqa: ARG001
    payload = work.payload()
    messages = [{"value": payload} for _ in range(work.record_count)]
    producer = _producer(work)
    start = perf_counter()
    queued = producer.produce_batch(TOPIC, messages, partition=0)
    left = producer.flush()
    seconds = perf_counter() - start
    expect(queued, work.record_count)
    expect(left, 0)
    return seconds
