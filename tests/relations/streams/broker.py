"""A Kafka broker for tests: librdkafka's mock cluster in a process of its own, spoken to over TCP like any other."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextlib import suppress

from confluent_kafka import Producer

_CLUSTER = """
import sys
from confluent_kafka import Producer
cluster = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
broker, = cluster.list_topics(timeout=30).brokers.values()
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


class Broker:
    """One broker. Its topics come into being with the first record, with four partitions, each of which keeps the newest 5 MB."""

    def __init__(self) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", _CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        self._producer = Producer({"bootstrap.servers": self.address, "log_level": 0, "linger.ms": 5})

    def send(self, topic, values, *, partition=None):
        """Append records and wait until the broker has them; without a partition they go round."""
        for number, value in enumerate(values):
            self._producer.produce(topic, value=value, partition=number % 4 if partition is None else partition)
            if number % 1000 == 0:
                self._producer.poll(0)
        assert self._producer.flush(30) == 0

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Door:
    """A port of its own that leads to whichever broker is behind it now, so that a cluster can be replaced under one address."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                host, port = self.broker.address.split(":")
                try:
                    server = socket.create_connection((host, int(port)))
                except OSError:
                    client.close()
                    continue
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=_pump, args=(one, other), daemon=True).start()

    def close(self):
        self._listener.close()


def _pump(source, target):
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
