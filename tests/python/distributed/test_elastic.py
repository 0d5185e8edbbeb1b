"""`torch.distributed.elastic`: rendezvous, timers, events, metrics, and exchanges through stores."""

import base64
import datetime
import io
import json
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest
from launching import LIMIT, until

import pytpu as torch
from pytpu.distributed.elastic import events, metrics, timer
from pytpu.distributed.elastic.agent.server import SimpleElasticAgent, WorkerSpec, WorkerState, ranks
from pytpu.distributed.elastic.agent.server.api import RunResult
from pytpu.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from pytpu.distributed.elastic.multiprocessing.tail_log import TailLog
from pytpu.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousGracefulExitError,
    RendezvousHandlerRegistry,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStateError,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)
from pytpu.distributed.elastic.rendezvous._state import Node, State
from pytpu.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend, create_backend
from pytpu.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler, RendezvousTimeout
from pytpu.distributed.elastic.rendezvous.registry import get_rendezvous_handler
from pytpu.distributed.elastic.rendezvous.utils import (
    address_for_others,
    is_this_machine,
    parse_rendezvous_endpoint,
    settings_from_text,
)
from pytpu.distributed.elastic.utils import get_env_variable_or_raise, macros, store as stores
from pytpu.distributed.elastic.utils.data import CyclingIterator, ElasticDistributedSampler
from pytpu.distributed.elastic.utils.distributed import create_c10d_store, get_free_port
from pytpu.distributed.launcher.api import LaunchConfig, elastic_launch

dist = torch.distributed


class Nodes:
    """Nodes of one rendezvous in threads of this process."""

    def __init__(self, least, most, **settings):
        self.server = dist.TCPStore("localhost", 0, is_master=True)
        self.least, self.most, self.settings = least, most, settings
        self.handlers = []

    def node(self):
        client = dist.TCPStore("localhost", self.server.port)
        times = {name: datetime.timedelta(seconds=self.settings.get(name, LIMIT)) for name in ("join", "last_call")}
        handler = DynamicRendezvousHandler.from_backend(
            "job",
            client,
            C10dRendezvousBackend(client.clone(), "job"),
            self.least,
            self.most,
            "localhost",
            RendezvousTimeout(**times),
            keep_alive_interval=self.settings.get("keep_alive", 5),
        )
        self.handlers.append(handler)
        return handler

    def join(self, handler):
        """Start a node's next round in a thread. Return a function that waits for its rank and the number of nodes."""
        found = []

        def run():
            try:
                info = handler.next_rendezvous()
                found.append((info.rank, info.world_size, info))
            except Exception as error:
                found.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def result():
            thread.join(LIMIT)
            assert found, "the node did not get into a round"
            if isinstance(found[0], Exception):
                raise found[0]
            return found[0]

        return result


@pytest.fixture
def nodes():
    made = []

    def make(*arguments, **settings):
        made.append(Nodes(*arguments, **settings))
        return made[-1]

    yield make
    for group in made:
        for handler in group.handlers:
            handler._stop_heartbeats()


def test_nodes_agree_on_ranks_and_on_the_store_of_the_workers(nodes):
    group = nodes(3, 3)
    results = [join() for join in [group.join(group.node()) for _ in range(3)]]
    assert sorted(rank for rank, _, _ in results) == [0, 1, 2] and {size for _, size, _ in results} == {3}
    addresses = {
        (info.bootstrap_store_info.master_addr, info.bootstrap_store_info.master_port) for _, _, info in results
    }
    ((host, port),) = addresses
    dist.TCPStore(host, port).set("a", "1")
    results[0][2].store.set("key", "value")
    assert results[1][2].store.get("key") == b"value"


def test_a_round_with_enough_nodes_waits_for_the_last_call_only(nodes):
    group = nodes(1, 2, last_call=0.2)
    assert group.join(group.node())()[:2] == (0, 1)


def test_a_late_node_waits_for_the_next_round(nodes):
    # The second round waits so long for the late node, which asks again and again.
    group = nodes(1, 2, last_call=4)
    first, second = group.node(), group.node()
    assert group.join(first)()[:2] == (0, 1) and first.num_nodes_waiting() == 0
    late = group.join(second)
    until(lambda: first.num_nodes_waiting() == 1, "the second node's arrival")
    old_port = first._worker_store.port
    again = group.join(first)
    ports = {join()[2].bootstrap_store_info.master_port for join in (again, late)}
    assert len(ports) == 1 and old_port not in ports
    assert again()[1] == late()[1] == 2 and first.num_nodes_waiting() == 0


def test_a_node_that_is_one_too_many_takes_the_place_of_a_lost_one(nodes):
    group = nodes(1, 1, keep_alive=1, join=1, last_call=0.2)
    first, second = group.node(), group.node()
    group.join(first)()
    spare = group.join(second)
    # Longer than the time to join: a spare node waits as long as the job runs.
    until(
        lambda: first._state.change(lambda state: state.redundancy_list, RendezvousTimeout().heartbeat),
        "the spare node",
    )
    time.sleep(1.5)
    assert first.num_nodes_waiting() == 0
    first._stop_heartbeats()
    assert spare()[:2] == (0, 1)


def test_a_spare_node_ends_with_the_job(nodes):
    group = nodes(1, 1)
    first, second = group.node(), group.node()
    group.join(first)()
    spare = group.join(second)
    until(
        lambda: first._state.change(lambda state: state.redundancy_list, RendezvousTimeout().heartbeat),
        "the spare node",
    )
    assert not first.is_closed() and first.shutdown() and first.is_closed()
    with pytest.raises(RendezvousGracefulExitError):
        spare()
    with pytest.raises(RendezvousClosedError, match="The rendezvous 'job' is closed"):
        group.join(group.node())()


def test_a_round_without_enough_nodes_times_out_and_forgets_its_nodes(nodes):
    group = nodes(2, 2, join=0.3)
    with pytest.raises(RendezvousTimeoutError, match="1 of at least 2 nodes were there"):
        group.join(group.node())()
    group.settings = {}
    ranks = [join()[0] for join in [group.join(group.node()) for _ in range(2)]]
    assert sorted(ranks) == [0, 1]


def test_a_node_that_leaves_is_not_missed(nodes):
    group = nodes(1, 2, last_call=0.2)
    first, second = group.node(), group.node()
    joins = [group.join(first), group.join(second)]
    assert {join()[1] for join in joins} == {2}
    second.leave()
    assert group.join(first)()[:2] == (0, 1)


def test_many_nodes_write_at_once(nodes):
    group = nodes(8, 8)
    assert sorted(join()[0] for join in [group.join(group.node()) for _ in range(8)]) == list(range(8))


def test_a_lost_store_is_an_error_of_the_connection(nodes):
    group = nodes(1, 1)
    node = group.node()
    group.join(node)()
    group.server = None
    assert node.shutdown() is False
    with pytest.raises(RendezvousConnectionError, match="The connection to the C10d store has failed"):
        node.is_closed()


def test_a_state_that_is_no_state_is_refused(nodes):
    group = nodes(1, 1)
    node = group.node()
    for text in ("Tm8=", "e30", '{"x"'):
        group.server.set("torch.rendezvous.job", text)
        # `set` does not wait until the server has done it, `get` does.
        assert group.server.get("torch.rendezvous.job") == text.encode()
        with pytest.raises(RendezvousStateError, match="corrupt"):
            node.is_closed()


# Written by two agents of PyTorch 2.15 with 1 and 2 workers, through a store that showed each request. The state is
# that of their complete round, on 26 November 2026.
RECORDED_STATE = (
    "gASVpAEAAAAAAACMN3RvcmNoLmRpc3RyaWJ1dGVkLmVsYXN0aWMucmVuZGV6dm91cy5keW5hbWljX3JlbmRlenZvdXOUjBBfUmVuZGV6dm91c1N0"
    "YXRllJOUKYGUfZQojAVyb3VuZJRLAIwIY29tcGxldGWUiIwIZGVhZGxpbmWUTowGY2xvc2VklImMDHBhcnRpY2lwYW50c5R9lChoAIwJX05vZGVE"
    "ZXNjlJOUKYGUfZQojARhZGRylIwJbG9jYWxob3N0lIwDcGlklE0XD4wIbG9jYWxfaWSUSwB1YksAaAwpgZR9lChoD4wJbG9jYWxob3N0lGgRTRgP"
    "aBJLAHViSwF1jAl3YWl0X2xpc3SUj5SMD3JlZHVuZGFuY3lfbGlzdJSPlIwPbGFzdF9oZWFydGJlYXRzlH2UKGgNjAhkYXRldGltZZSMCGRhdGV0"
    "aW1llJOUQwoH6gsaDhUQAnQmlGgcjAh0aW1lem9uZZSTlGgcjAl0aW1lZGVsdGGUk5RLAEsASwCHlFKUhZRSlIaUUpRoE2geQwoH6gsaDhUQAwcg"
    "lGgnhpRSlHV1Yi4="
)
RECORDED_KEY_WITHOUT_STATE = b"Y2FuaW1hZGFt"
RECORDED_ROLE_INFO = '{"role": "trainer", "rank": 1, "local_world_size": 2}'
RECORDED_RANKS = "[1, 3, 0, 2]"


class Names(pickle.Unpickler):
    """A reader that makes an empty class for each name of PyTorch."""

    def __init__(self, data):
        super().__init__(io.BytesIO(data))
        self.kinds = {}

    def find_class(self, module, name):
        if not module.startswith("torch."):
            return super().find_class(module, name)
        return self.kinds.setdefault(f"{module}.{name}", type(name, (), {}))


def attributes(data):
    """Return the names of the classes in a pickle, and the attributes of its object and of one of its participants."""
    reader = Names(data)
    state = vars(reader.load())
    node = next(iter(state["participants"]))
    return set(reader.kinds), {name: type(value) for name, value in state.items()}, set(vars(node))


def test_states_have_the_form_of_pytorch():
    recorded = base64.b64decode(RECORDED_STATE)
    state = State.decode(recorded)
    zero, one = Node("localhost", 3863, 0), Node("localhost", 3864, 0)
    assert (state.round, state.complete, state.closed, state.deadline) == (0, True, False, None)
    assert state.participants == {zero: 0, one: 1} and not state.wait_list and not state.redundancy_list
    assert state.last_heartbeats[zero].isoformat() == "2026-11-26T14:21:16.160806+00:00"
    assert State.decode(state.encode()) == state and attributes(state.encode()) == attributes(recorded)
    state.participants = {Node("localhost", 1, 0, "pytpu"): 0}
    state.wait_list, state.redundancy_list = {zero}, {one}
    assert State.decode(state.encode()) == state
    # PyTorch's agents keep the attribute that they do not know.
    names, _, of_node = attributes(state.encode())
    assert names == attributes(recorded)[0] and of_node - attributes(recorded)[2] == {"agent"}


def test_states_make_no_other_objects():
    for value in (os.system, [1], Node("a", 1, 0)):
        with pytest.raises(RendezvousStateError, match="corrupt"):
            State.decode(pickle.dumps(value))
    time = datetime.datetime(2026, 1, 1)
    with pytest.raises(RendezvousStateError) as caught:
        State.decode(State(deadline=time).encode())
    assert "has no zone" in str(caught.value.__cause__)


class OtherAgent:
    """An agent of PyTorch in the rendezvous of a node."""

    def __init__(self, node, name):
        self.node, self.name = node, Node(name, 1, 0)

    def edit(self, change):
        return self.node._state.change(change, datetime.timedelta(seconds=LIMIT))

    def join(self, number):
        def change(state):
            state.participants[self.name] = 0
            state.last_heartbeats[self.name] = datetime.datetime.now(datetime.timezone.utc)

        until(lambda: self.edit(lambda state: state.round) == number, f"round {number}")
        self.edit(change)

    def leave(self):
        self.edit(lambda state: state.remove(self.name, 2))


def test_nodes_meet_an_agent_of_pytorch(nodes):
    group = nodes(2, 2)
    node = group.node()
    assert group.server.get("torch.rendezvous.job") == RECORDED_KEY_WITHOUT_STATE
    other = OtherAgent(node, "a")
    other.join(0)
    result = group.join(node)
    # The other agent has rank 0.
    group.server.multi_set([f"torch.rendezvous.job.0/{name}" for name in ("MASTER_ADDR", "MASTER_PORT")], ["h", "17"])
    rank, size, info = result()
    assert (rank, size, info.bootstrap_store_info) == (1, 2, RendezvousStoreInfo("h", 17))
    # Its workers know nothing about new stores.
    assert not node.has_new_store
    other.leave()
    result = group.join(node)
    other.join(1)
    # It does not tell the address again.
    assert result()[2].bootstrap_store_info == RendezvousStoreInfo("h", 17)


def test_the_workers_of_pytorchs_agents_keep_the_store_of_this_package(nodes):
    group = nodes(2, 2)
    node = group.node()
    other = OtherAgent(node, "z")
    addresses = []
    for number in range(2):
        result = group.join(node)
        other.join(number)
        rank, _, info = result()
        address = info.bootstrap_store_info
        assert rank == 0 and info.store.get("MASTER_PORT") == str(address.master_port).encode()
        dist.TCPStore(address.master_addr, address.master_port).set("a", "1")
        addresses.append(address)
        other.leave()
    assert addresses[0] == addresses[1]
    # If all agents of a round are of this package, they take a new store.
    last = group.join(node), group.join(group.node())
    assert last[0]()[2].bootstrap_store_info == last[1]()[2].bootstrap_store_info != addresses[0]
    assert node.has_new_store


def test_ranks_are_agreed_with_an_agent_of_pytorch():
    store = dist.HashStore()
    store.set("torchelastic/role_info/1", RECORDED_ROLE_INFO)
    assert ranks.agree(store, 0, 2, "default", 1) == (0, 3, 0, 1)
    assert store.get("torchelastic/assigned_ranks/1") == RECORDED_RANKS.encode()
    store = dist.HashStore()
    store.set("torchelastic/assigned_ranks/1", RECORDED_RANKS)
    assert ranks.agree(store, 1, 2, "trainer", 2) == (1, 3, 0, 2)
    assert store.get("torchelastic/role_info/1") == RECORDED_ROLE_INFO.encode()


def test_an_agent_ends_together_with_one_of_pytorch(monkeypatch):
    store = dist.HashStore()
    spec = worker_spec()
    info = RendezvousInfo(store, 0, 2, RendezvousStoreInfo("h", 17))
    monkeypatch.setattr(spec.rdzv_handler, "next_rendezvous", lambda: info)
    store.set("torchelastic/role_info/1", RECORDED_ROLE_INFO)
    store.add("torchelastic/agent/terminal_state/num_members", 1)
    assert Agent(spec, [WorkerState.SUCCEEDED]).run().state == WorkerState.SUCCEEDED
    assert store.check(["torchelastic/agent/terminal_state/last_member"])
    assert store.add("torchelastic/agent/terminal_state/num_members", 0) == 2


def test_settings_of_a_rendezvous(tmp_path):
    parameters = RendezvousParameters("c10d", "localhost:0", "job", 1, 2, a="yes", b=0, c="7", d="x", timeout=900)
    assert parameters.get_as_bool("a") is True and parameters.get_as_bool("b") is False
    assert parameters.get_as_int("c") == 7 and parameters.get_as_int("e", 3) == 3 and parameters.get("d") == "x"
    for call in (parameters.get_as_bool, parameters.get_as_int):
        with pytest.raises(ValueError, match="The rendezvous configuration option 'd' does not represent a valid"):
            call("d")
    for arguments, words in (
        (("", "e", "j", 1, 1), "backend name must be a non-empty string"),
        (("b", "e", "j", 0, 1), r"minimum number of rendezvous nodes \(0\) must be greater than zero"),
        (("b", "e", "j", 2, 1), r"maximum number of rendezvous nodes \(1\) must be greater than or equal"),
    ):
        with pytest.raises(ValueError, match=words):
            RendezvousParameters(*arguments)
    with pytest.raises(ValueError, match=r"The join timeout \(0:00:00\) must be positive"):
        RendezvousTimeout(join=datetime.timedelta(0))
    for name, value, words in (
        ("join_timeout", "x", "valid integer"),
        ("cas_backoff_max_seconds", "x", "not a valid float"),
        ("cas_backoff_max_seconds", -1, "must be finite and non-negative"),
        ("store_type", "other", "Invalid store type"),
        ("read_timeout", 0, "read timeout must be a positive integer"),
    ):
        with pytest.raises(ValueError, match=words):
            get_rendezvous_handler(RendezvousParameters("c10d", "localhost:0", "job", 1, 1, **{name: value}))
    backend, store = create_backend(RendezvousParameters("c10d", str(tmp_path / "f"), "j", 1, 1, store_type="file"))
    assert backend.name == "c10d" and backend.get_state() is None and isinstance(store, dist.FileStore)
    state, token, is_set = backend.set_state(b"one")
    assert (state, is_set) == (b"one", True) and backend.set_state(b"two", token)[2]
    assert backend.set_state(b"three", token)[::2] == (b"two", False)
    assert backend.set_state(b"three")[::2] == (b"two", False)


def test_a_static_rendezvous_has_fixed_ranks():
    port = get_free_port()
    handler = get_rendezvous_handler(RendezvousParameters("static", f"localhost:{port}", "job", 1, 1, rank=0))
    info = handler.next_rendezvous()
    assert (info.rank, info.world_size, info.bootstrap_store_info.master_port) == (0, 1, port)
    assert handler.use_agent_store and handler.num_nodes_waiting() == 0 and not handler.is_closed()
    assert handler.shutdown() and handler.get_run_id() == "job" and handler.set_closed() is None
    for endpoint, config, words in (
        ("localhost:1", {}, "rank is absent"),
        ("", {"rank": 0}, "endpoint is absent"),
        ("localhost", {"rank": 0}, "Port is absent in endpoint: localhost"),
    ):
        with pytest.raises(ValueError, match=words):
            get_rendezvous_handler(RendezvousParameters("static", endpoint, "job", 1, 1, **config))


def test_kinds_of_rendezvous_are_registered():
    registry = RendezvousHandlerRegistry()
    create = lambda parameters: get_rendezvous_handler(RendezvousParameters("static", "h:1", "job", 1, 1, rank=1))
    registry.register("own", create)
    registry.register("own", create)
    with pytest.raises(ValueError, match="cannot be registered"):
        registry.register("own", print)
    with pytest.raises(ValueError, match="non-empty"):
        registry.register("", create)
    with pytest.raises(ValueError, match="'absent' is not registered. Did you forget to call `register`"):
        registry.create_handler(RendezvousParameters("absent", "", "job", 1, 1))
    with pytest.raises(RuntimeError, match="'static' does not match the requested backend 'own'"):
        registry.create_handler(RendezvousParameters("own", "", "job", 1, 1))


def test_addresses():
    assert settings_from_text(" a=1, b = c=d ") == {"a": "1", "b": "c=d"} and settings_from_text(" ") == {}
    with pytest.raises(ValueError, match="must be in format"):
        settings_from_text("=1")
    for text, want in (
        (None, ("localhost", 5)),
        ("host", ("host", 5)),
        ("host.a:17", ("host.a", 17)),
        ("[::1]:17", ("::1", 17)),
        ("[::1]", ("::1", 5)),
    ):
        assert parse_rendezvous_endpoint(text, 5) == want
    for text, words in (
        ("host:99999", "port number"),
        ("host:x", "port number"),
        ("a b:1", "hostname"),
        (":1", "hostname"),
    ):
        with pytest.raises(ValueError, match=words):
            parse_rendezvous_endpoint(text, 5)
    assert is_this_machine("localhost") and is_this_machine("127.0.0.2")
    assert not is_this_machine("192.0.2.1") and not is_this_machine("0.0.0.0")
    assert not is_this_machine("name.invalid")
    assert address_for_others("localhost:1") == "localhost" and address_for_others("127.0.0.1:1") == "127.0.0.1"


def test_exchanges_through_a_store():
    store = dist.HashStore()
    found = {}

    def run(rank):
        found[rank] = stores.synchronize(store, f"of {rank}".encode(), rank, 3, "data", LIMIT)
        stores.barrier(store, 3, "end", LIMIT)

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert found == {rank: [b"of 0", b"of 1", b"of 2"] for rank in range(3)}
    before = store.timeout
    with stores.store_timeout(store, 0.05), pytest.raises(dist.DistStoreError):
        store.get("absent")
    assert store.timeout == before


def test_a_barrier_names_the_ranks_that_are_missing():
    store = dist.HashStore()
    with pytest.raises(dist.DistStoreError, match="wait timeout"):
        stores.barrier(store, 2, "plain", 0.05)
    words = r"rank 0, for key prefix: key \(world_size=3, missing_ranks=\[<1>, <2>\], timeout=0.05\)"
    with pytest.raises(dist.DistStoreError, match=words):
        stores.barrier(store, 3, "key", 0.05, 0, lambda rank: f"<{rank}>", trace_timeout=0.05)
    with pytest.raises(dist.DistStoreError, match=r"\[<check rank 0 \(0\) for missing rank info>\]"):
        stores.barrier(store, 3, "key", 0.05, 1)
    with pytest.raises(AssertionError, match="Tracing requires rank information"):
        stores.barrier(store, 2, "x", 0.05, rank_tracing_decoder=str)


def test_stores_at_free_and_used_ports():
    store = create_c10d_store(True, "localhost", world_size=1, timeout=LIMIT)
    with pytest.raises(dist.DistNetworkError, match=f"on localhost, port: {store.port} already in use"):
        create_c10d_store(True, "localhost", store.port, timeout=LIMIT)
    with pytest.raises(ValueError, match="server_port must be specified when world_size > 1"):
        create_c10d_store(True, "localhost", world_size=2)


def test_variables_and_macros(monkeypatch):
    monkeypatch.setenv("A_VARIABLE", "x")
    assert get_env_variable_or_raise("A_VARIABLE") == "x"
    with pytest.raises(ValueError, match="Environment variable ABSENT expected, but not set"):
        get_env_variable_or_raise("ABSENT")
    assert macros.substitute(["--rank=${local_rank}", 3, "${other}"], "7") == ["--rank=7", 3, "${other}"]


def test_data_of_jobs_that_are_resumed():
    assert list(CyclingIterator(3, lambda epoch: iter(range(epoch)), start_epoch=1)) == [0, 0, 1]
    samplers = [ElasticDistributedSampler(list(range(11)), 3, rank, start_index=4) for rank in range(3)]
    drawn = [list(sampler) for sampler in samplers]
    assert [len(part) for part in drawn] == [3, 3, 3] and set(sum(drawn, [])) == set(range(4, 11))
    for sampler in samplers:
        sampler.set_epoch(1)
    assert [list(sampler) for sampler in samplers] != drawn
    # One sample is left for three ranks.
    assert [list(ElasticDistributedSampler([1, 2, 3], 3, rank, 2)) for rank in range(3)] == [[2]] * 3
    with pytest.raises(ValueError, match="Start index 3 should be less than dataset size 3"):
        ElasticDistributedSampler([1, 2, 3], 3, 0, 3)


class Handler(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def test_events_go_to_a_registered_handler():
    handler = Handler()
    logger = logging.getLogger("torchelastic-events-own")
    logger.addHandler(handler)
    event = events.Event("name", events.EventSource.AGENT, 3, {"a": 1})
    try:
        events.record(event, "own")
    finally:
        logger.removeHandler(handler)
    (text,) = handler.texts
    assert events.Event.deserialize(text) == event and str(event) == text
    for name in ("own", "absent"):
        with pytest.raises(KeyError):
            events.record(event, name)


def test_events_of_a_rendezvous_and_other_servers_of_timers_are_refused_by_name():
    for make in (events.RdzvEvent, events.record_rdzv_event, metrics.publish_metric, timer.TimerServer):
        with pytest.raises(NotImplementedError, match=r"torch\.distributed\.elastic\.\w+\.\w+: "):
            make()


def test_metrics_go_to_the_handler_of_their_group(capsys):
    found = []

    class Keep(metrics.MetricHandler):
        def emit(self, metric_data):
            found.append((metric_data.group_name, metric_data.name, metric_data.value))

    metrics.configure(Keep(), "own")

    @metrics.prof(group="own")
    def work(fails):
        if fails:
            raise KeyError

    work(False)
    with pytest.raises(KeyError):
        work(True)
    name = work.__qualname__
    assert [entry[:2] for entry in found] == [
        ("own", f"{name}.{what}") for what in ("success", "duration.ms", "failure", "duration.ms")
    ]
    metrics.put_metric("dropped", 1)
    metrics.configure(metrics.ConsoleMetricHandler(), "shown")
    metrics.put_metric("number", 3, "shown")
    assert "[shown]: number=3" in capsys.readouterr().out
    metrics.configure(metrics.NullMetricHandler(), "own")
    metrics.put_metric("number", 4, "own")
    assert len(found) == 4


def _stuck(queue, ready):
    timer.configure(timer.LocalTimerClient(queue))
    with timer.expires(after=LIMIT):
        pass
    with timer.expires(after=0.05, scope="stuck"):
        ready.set()
        time.sleep(10 * LIMIT)


def test_a_worker_whose_timer_expires_is_killed():
    context = multiprocessing.get_context("spawn")
    queue, ready = context.Queue(), context.Event()
    server = timer.LocalTimerServer(queue, max_interval=0.05)
    server.start()
    process = context.Process(target=_stuck, args=(queue, ready), daemon=True)
    process.start()
    try:
        assert ready.wait(LIMIT)
        process.join(LIMIT)
        assert process.exitcode == -signal.SIGKILL
    finally:
        process.kill()
        server.stop()


def test_timers_of_a_pipe(tmp_path, monkeypatch):
    path = str(tmp_path / "pipe")
    seen = []
    monkeypatch.setattr(timer.os, "kill", lambda pid, number: seen.append((pid, number)) if number else None)
    client = timer.FileTimerClient(path)
    with pytest.raises(BrokenPipeError, match="FileTimerServer is not available"):
        client.acquire("a", 1.0)
    server = timer.FileTimerServer(path, "job", 0.05, log_event=lambda name, request: seen.append(name))
    server.start()
    try:
        with timer.expires(LIMIT, "in time", client):
            until(lambda: server._timers, "the request")
        until(lambda: not server._timers, "the release")
        client.acquire("late", time.time() - 1)
        until(lambda: (os.getpid(), signal.SIGKILL) in seen, "the end of the worker")
        assert server.get_last_progress_time() > 0
        with pytest.raises(RuntimeError, match="shorten scope_id"):
            client.acquire("x" * 10_000, 1.0)
    finally:
        server.stop()
    assert seen[0] == "watchdog started" and "timer expired" in seen and seen[-1] == "watchdog stopped"
    assert not os.path.exists(path)
    with pytest.raises(RuntimeError, match="Configure timer client before"):
        with timer.expires(1):
            pass


def test_requests_for_timers_have_the_form_of_pytorch(tmp_path):
    # Read from the pipe of a client of PyTorch 2.15.
    recorded = '{"version": 1, "pid": 17, "scope_id": "scope", "expiration_time": 12.5, "signal": 9}'
    assert timer.FileTimerRequest(17, "scope", 12.5, signal.SIGKILL).to_json() == recorded
    path = str(tmp_path / "pipe")
    server = timer.FileTimerServer(path, "job", 0.05)
    server.start()
    try:
        client = timer.FileTimerClient(path)
        client.acquire("own", time.time() + LIMIT)
        until(lambda: server._timers, "the request")
        released = {"version": 1, "pid": os.getpid(), "scope_id": "own", "expiration_time": -1, "signal": 0}
        with open(path, "w") as pipe:
            pipe.write(json.dumps(released) + "\n")
        until(lambda: not server._timers, "the release")
    finally:
        server.stop()


def test_a_stuck_worker_ends_the_agent_that_watches_timers(launcher):
    script = launcher.script(
        "import os, time\nfrom pytpu.distributed.elastic import timer\n"
        "client = timer.FileTimerClient(os.environ['TORCHELASTIC_TIMER_FILE'])\n"
        "with timer.expires(0.1, client=client): time.sleep(600)\n"
    )
    code, _, _ = launcher.run(script, TORCHELASTIC_ENABLE_FILE_TIMER="1", TMPDIR=str(launcher.folder))
    assert code == -signal.SIGKILL


def test_lines_are_copied_when_they_are_whole(tmp_path):
    path = tmp_path / "log"
    lines = []

    class Console:
        def write(self, text):
            lines.append(text)

        def flush(self):
            pass

    tail = TailLog("work", {3: str(path), 4: str(tmp_path / "absent")}, Console(), interval_sec=0.01).start()
    with open(path, "w") as file:
        for part in ("one\ntw", "o\nthree"):
            file.write(part)
            file.flush()
            until(lambda: lines and lines[-1] in ("[work3]:one\n", "[work3]:two\n"), "a line")
    tail.stop()
    assert lines == ["[work3]:one\n", "[work3]:two\n", "[work3]:three"] and tail.stopped()


class Agent(SimpleElasticAgent):
    """An agent whose workers have the given states, one at each look."""

    def __init__(self, spec, states):
        super().__init__(spec)
        self.states, self.calls = list(states), []

    def _pause(self, seconds):
        pass

    def _start_workers(self, worker_group):
        self.calls.append("start")
        return {worker.local_rank: worker.local_rank for worker in worker_group.workers}

    def _stop_workers(self, worker_group):
        self.calls.append("stop")

    def _shutdown(self, death_sig=signal.SIGTERM, timeout=30):
        self.calls.append(death_sig.name)

    def _monitor_workers(self, worker_group):
        state = self.states.pop(0)
        values = {worker.global_rank: None for worker in worker_group.workers}
        return RunResult(state, return_values=values if state == WorkerState.SUCCEEDED else {})


def worker_spec(**settings):
    parameters = RendezvousParameters("static", f"localhost:{get_free_port()}", "job", 1, 1, rank=0)
    settings = {"role": "r", "local_world_size": 2, "entrypoint": "true", **settings}
    return WorkerSpec(rdzv_handler=get_rendezvous_handler(parameters), **settings)


@pytest.mark.parametrize(
    ("states", "calls", "result"),
    [
        ("HEALTHY SUCCEEDED", ["start", "SIGTERM"], "SUCCEEDED"),
        ("FAILED HEALTHY SUCCEEDED", ["start", "stop", "start", "SIGTERM"], "SUCCEEDED"),
        ("UNHEALTHY FAILED", ["start", "stop", "start", "stop", "SIGTERM"], "FAILED"),
    ],
)
def test_an_agent_restarts_workers_as_often_as_it_may(states, calls, result):
    agent = Agent(worker_spec(max_restarts=1), [WorkerState[name] for name in states.split()])
    found = agent.run()
    assert found.state.name == result and found.is_failed() == (result == "FAILED")
    assert agent.calls == calls
    assert [(worker.global_rank, worker.role_rank) for worker in agent.get_worker_group().workers] == [(0, 0), (1, 1)]


def test_an_agent_that_gets_an_unknown_state_ends():
    with pytest.raises(RuntimeError, match=r"\[r\] Worker group in UNKNOWN state"):
        Agent(worker_spec(), [WorkerState.UNKNOWN]).run()


def test_ranks_of_nodes_with_different_roles(monkeypatch):
    store = dist.HashStore()
    found = {}

    def run(rank, role, n):
        found[rank] = ranks.agree(store, rank, 3, role, n)

    nodes = [(0, "a", 2), (1, "b", 1), (2, "a", 1)]
    threads = [threading.Thread(target=run, args=node, daemon=True) for node in nodes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert found == {0: (0, 4, 0, 3), 1: (2, 4, 0, 1), 2: (3, 4, 2, 3)}
    monkeypatch.setenv("TORCH_ELASTIC_WORKER_IDENTICAL", "1")
    assert ranks.agree(store, 2, 3, "c", 2) == (4, 6, 4, 6)


def test_wrong_workers_are_refused():
    for settings in ({"local_world_size": 0}, {"monitor_interval": 0}, {"entrypoint": None}):
        with pytest.raises(AssertionError):
            worker_spec(**settings)
    with pytest.warns(DeprecationWarning, match="WorkerSpec.fn will be deprecated"):
        assert worker_spec(entrypoint=None, fn=print).get_entrypoint_name() == "print"


def test_events_of_a_job_are_printed_on_request(launcher):
    code, _, err = launcher.run("--event-log-handler=console", "--nproc-per-node=2", launcher.script(""))
    assert code == 0
    found = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
    states = [(event["source"], event["metadata"]["state"]) for event in found]
    assert states == [
        ("AGENT", "RENDEZVOUS"), ("AGENT", "ASSIGN_WORKER_RANKS"), ("WORKER", "START"), ("WORKER", "START"),
        ("WORKER", "SUCCEEDED"), ("WORKER", "SUCCEEDED"), ("AGENT", "SUCCEEDED"),
    ]  # fmt: skip


def test_an_agent_that_fails_is_recorded(monkeypatch):
    recorded = []
    monkeypatch.setattr(events, "record", lambda event, destination="null": recorded.append((event, destination)))

    def fail(agent, role="default"):
        raise KeyError("agent")

    monkeypatch.setattr(LocalElasticAgent, "run", fail)
    config = LaunchConfig(1, 1, 1, rdzv_backend="c10d", rdzv_endpoint="localhost:0", event_log_handler="mine")
    with pytest.raises(KeyError, match="agent"):
        elastic_launch(config, "true")()
    ((event, destination),) = recorded
    assert event.metadata["state"] == "FAILED" and "KeyError" in event.metadata["raw_error"] and destination == "mine"


def test_the_launcher_does_not_import_numpy():
    # Its start is part of the start of each job.
    code = "import sys, pytpu.distributed.run; print('numpy' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, timeout=LIMIT) == "False\n"
