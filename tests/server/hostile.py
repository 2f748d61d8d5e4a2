"""The base of the hostile suites: one server and one oracle for all classes that want the same options."""
import random
import tempfile

from attacks import COMPLETIONS, exchange, status_of
from oracle import Oracle, computing_seconds
from serving import CONTEXT, Server, ServerTest

shared = {}  # options to (folder, server, oracle)


def start_server(*options):
    folder = tempfile.TemporaryDirectory(prefix="hearth_server_")
    server = Server(folder.name, *options)
    if "--key" in options:
        server.headers = {"Authorization": "Bearer " + options[options.index("--key") + 1]}
    # Memory of the KV is touched when it is first used: all of it now, so that it does not look like growth later.
    ids = random.Random(1)
    prompts = [[ids.randrange(33, 300) for _ in range(CONTEXT - 8)] for _ in range(18)]
    status, _, reply = server.request("POST", COMPLETIONS, {"prompt": prompts, "max_tokens": 1})
    assert status == 200, reply
    return folder, server, Oracle(server)


def stop_servers():
    while shared:
        folder, server, oracle = shared.popitem()[1]
        oracle.stop()
        code, errors = server.stop(), server.errors()
        folder.cleanup()
        assert code == 0, f"exit code {code}: {errors}"


class HostileTest(ServerTest):
    OPTIONS = ("--kv-memory", "4", "--header-timeout", "3", "--client-timeout", "3")

    @classmethod
    def setUpClass(cls):
        if cls.OPTIONS not in shared:
            shared[cls.OPTIONS] = start_server(*cls.OPTIONS)
        _, cls.server, cls.oracle = shared[cls.OPTIONS]

    @classmethod
    def tearDownClass(cls):
        pass  # others may still want the server: stop_servers()

    def survive(self, attack):
        self.oracle.survive(self, attack)

    def computing(self, act):
        """How many seconds the server computed for this: the least of three."""
        times = []
        for _ in range(3):
            before = computing_seconds(self.server.process.pid)
            act()
            times.append(computing_seconds(self.server.process.pid) - before)
        return min(times)

    def status(self, *pieces, **more):
        return status_of(exchange(self.server.port, *pieces, **more))
