//! Tests of the stores: what all of them do alike, then each one alone.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use torchtpu_distributed::rendezvous::rendezvous;
use torchtpu_distributed::store::{FileStore, HashStore, PrefixStore, Store, TcpOptions, TcpStore};
use torchtpu_tensor::ErrorKind;

const SHORT: Duration = Duration::from_millis(50);
const LONG: Duration = Duration::from_secs(20);

fn server() -> TcpStore {
    TcpStore::new("localhost", TcpOptions { port: 0, is_server: true, timeout: LONG, ..TcpOptions::default() }).unwrap()
}

fn client(port: u16) -> TcpStore {
    TcpStore::new("localhost", TcpOptions { port, timeout: LONG, ..TcpOptions::default() }).unwrap()
}

/// Each store once, with its name.
fn for_each_store(test: impl Fn(&str, Arc<dyn Store>)) {
    let folder = tempfile::tempdir().unwrap();
    let file = || Arc::new(FileStore::new(folder.path().join("store"), None).unwrap());
    test("hash", Arc::new(HashStore::new()));
    test("file", file());
    test("tcp", Arc::new(server()));
    let server = server();
    test("tcp client", Arc::new(client(server.port())));
    test("prefix hash", Arc::new(PrefixStore::new("a", Arc::new(HashStore::new()))));
    test("prefix file", Arc::new(PrefixStore::new("a", file())));
    test("prefix tcp", Arc::new(PrefixStore::new("a", Arc::new(client(server.port())))));
}

#[test]
fn values_are_set_read_and_deleted() {
    for_each_store(|name, store| {
        store.set("key", b"\xff\x00value").unwrap();
        assert_eq!(store.get("key").unwrap(), b"\xff\x00value", "{name}");
        store.set("empty", b"").unwrap();
        assert_eq!(store.get("empty").unwrap(), b"", "{name}");
        assert!(store.check(&["key", "empty"]).unwrap(), "{name}");
        assert!(!store.check(&["key", "absent"]).unwrap(), "{name}");
        assert!(store.check(&[]).unwrap(), "{name}");
        let mut keys = store.list_keys().unwrap();
        keys.sort();
        assert_eq!(keys, ["empty", "key"], "{name}");
        let count = store.num_keys().unwrap();
        assert!(store.delete_key("key").unwrap(), "{name}");
        assert_eq!(store.num_keys().unwrap(), count - 1, "{name}");
        assert!(!store.check(&["key"]).unwrap(), "{name}");
        store.append("key", b"a").unwrap();
        store.append("key", b"b").unwrap();
        assert_eq!(store.get("key").unwrap(), b"ab", "{name}");
    });
}

#[test]
fn numbers_are_added() {
    for_each_store(|name, store| {
        assert_eq!(store.add("n", 3).unwrap(), 3, "{name}");
        assert_eq!(store.add("n", -5).unwrap(), -2, "{name}");
        assert_eq!(store.get("n").unwrap(), b"-2", "{name}");
    });
    let store = HashStore::new();
    store.set("text", b"abc").unwrap();
    assert_eq!(store.add("text", 1).unwrap_err().kind(), ErrorKind::Value);
    store.set("big", i64::MAX.to_string().as_bytes()).unwrap();
    assert_eq!(store.add("big", 1).unwrap_err().kind(), ErrorKind::Value);
}

#[test]
fn compare_set_sets_the_expected_value_only() {
    for_each_store(|name, store| {
        assert_eq!(store.compare_set("c", b"x", b"y").unwrap(), b"x", "{name}: absent");
        assert!(!store.check(&["c"]).unwrap(), "{name}");
        assert_eq!(store.compare_set("c", b"", b"v1").unwrap(), b"v1", "{name}");
        assert_eq!(store.compare_set("c", b"x", b"v2").unwrap(), b"v1", "{name}");
        assert_eq!(store.compare_set("c", b"v1", b"v2").unwrap(), b"v2", "{name}");
        assert_eq!(store.get("c").unwrap(), b"v2", "{name}");
    });
}

#[test]
fn many_values_are_set_and_read_at_once() {
    for_each_store(|name, store| {
        store.multi_set(&["a", "b"], &[b"1", b"2"]).unwrap();
        assert_eq!(store.multi_get(&["b", "a"]).unwrap(), [b"2", b"1"], "{name}");
        assert_eq!(store.multi_set(&["a", "b"], &[b"1"]).unwrap_err().kind(), ErrorKind::Value, "{name}");
    });
}

#[test]
fn a_wait_ends_with_the_key_or_the_timeout() {
    for_each_store(|name, store| {
        store.set("here", b"").unwrap();
        store.wait(&["here"], None).unwrap();
        let begin = Instant::now();
        let error = store.wait(&["here", "absent"], Some(SHORT)).unwrap_err();
        assert!(begin.elapsed() >= SHORT, "{name}");
        assert_eq!(error.kind(), ErrorKind::DistStore, "{name}");
        let message = error.message();
        assert!(message.starts_with("wait timeout after 50ms, keys: "), "{name}: {message}");
        assert!(message.ends_with("absent") && !message.contains("here"), "{name}: {message}");
        store.set_timeout(SHORT);
        assert_eq!(store.timeout(), SHORT);
        assert_eq!(store.get("absent").unwrap_err().kind(), ErrorKind::DistStore, "{name}");
        assert_eq!(store.multi_get(&["absent"]).unwrap_err().kind(), ErrorKind::DistStore, "{name}");
        // The store works after a timeout.
        assert_eq!(store.get("here").unwrap(), b"", "{name}");
    });
}

#[test]
fn threads_wait_for_each_other_on_one_store() {
    for_each_store(|name, store| {
        store.set_timeout(LONG);
        thread::scope(|scope| {
            for i in 0..4 {
                let (store, first) = (&store, format!("first{i}"));
                scope.spawn(move || {
                    assert_eq!(store.get(&first).unwrap(), b"1");
                    store.set(&format!("second{i}"), b"2").unwrap();
                });
            }
            thread::sleep(SHORT);
            for i in 0..4 {
                store.set(&format!("first{i}"), b"1").unwrap();
            }
            let second: Vec<String> = (0..4).map(|i| format!("second{i}")).collect();
            store.wait(&second.iter().map(String::as_str).collect::<Vec<_>>(), None).unwrap();
        });
        assert_eq!(store.get("second3").unwrap(), b"2", "{name}");
    });
}

#[test]
fn a_barrier_waits_for_all() {
    for_each_store(|name, store| {
        let error = store.barrier("alone", 2, Some(SHORT)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DistStore, "{name}: {error}");
        thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| store.barrier("all", 3, Some(LONG)))).collect();
            for thread in threads {
                thread.join().unwrap().unwrap();
            }
        });
    });
}

#[test]
fn queues_pass_each_value_to_one_reader() {
    for_each_store(|name, store| {
        if name.contains("file") {
            assert_eq!(store.queue_len("q").unwrap_err().kind(), ErrorKind::NotImplemented, "{name}");
            return;
        }
        assert_eq!(store.queue_len("q").unwrap(), 0, "{name}");
        assert_eq!(store.queue_pop("q", false).unwrap_err().kind(), ErrorKind::DistQueueEmpty, "{name}");
        store.queue_push("q", b"1").unwrap();
        store.queue_push("q", b"2").unwrap();
        assert_eq!(store.queue_len("q").unwrap(), 2, "{name}");
        assert!(store.check(&["q"]).unwrap(), "{name}");
        assert_eq!(store.queue_pop("q", true).unwrap(), b"1", "{name}");
        assert_eq!(store.queue_pop("q", false).unwrap(), b"2", "{name}");
        assert!(!store.check(&["q"]).unwrap(), "{name}");
        store.set_timeout(LONG);
        let mut popped: Vec<Vec<u8>> = thread::scope(|scope| {
            let readers: Vec<_> = (0..3).map(|_| scope.spawn(|| store.queue_pop("q", true).unwrap())).collect();
            for value in [b"a", b"b", b"c"] {
                store.queue_push("q", value).unwrap();
            }
            readers.into_iter().map(|reader| reader.join().unwrap()).collect()
        });
        popped.sort();
        assert_eq!(popped, [b"a", b"b", b"c"], "{name}");
    });
}

#[test]
fn a_prefix_separates_keys() {
    let store: Arc<dyn Store> = Arc::new(HashStore::new());
    let (a, b) = (PrefixStore::new("a", store.clone()), PrefixStore::new("b", store.clone()));
    a.set("key", b"1").unwrap();
    b.set("key", b"2").unwrap();
    assert_eq!(a.get("key").unwrap(), b"1");
    assert_eq!(store.get("b/key").unwrap(), b"2");
    assert_eq!(b.list_keys().unwrap(), ["key"]);
}

#[test]
fn a_large_value_arrives_whole() {
    let server = server();
    let store = client(server.port());
    let value: Vec<u8> = (0..8 << 20).map(|i: u32| (i % 251) as u8).collect();
    store.set("large", &value).unwrap();
    assert_eq!(server.get("large").unwrap(), value);
    let error = store.set("larger", &vec![0; (8 << 20) + 1]).unwrap_err();
    assert_eq!(error.message(), "set: value: 8388609 bytes, must be at most 8388608");
    assert_eq!(store.set(&"k".repeat(9000), b"").unwrap_err().kind(), ErrorKind::Value);
    store.append("large", &value).unwrap();
    assert_eq!(store.get("large").unwrap().len(), 16 << 20);
}

#[test]
fn a_client_waits_for_a_late_server() {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = probe.local_addr().unwrap().port();
    drop(probe);
    let late = thread::spawn(move || client(port));
    thread::sleep(SHORT);
    let options = TcpOptions { port, is_server: true, timeout: LONG, ..TcpOptions::default() };
    let server = TcpStore::new("localhost", options).unwrap();
    server.set("key", b"value").unwrap();
    assert_eq!(late.join().unwrap().get("key").unwrap(), b"value");
}

#[test]
fn missing_servers_and_workers_are_reported() {
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = probe.local_addr().unwrap().port();
    drop(probe);
    let options = || TcpOptions { port, timeout: SHORT, ..TcpOptions::default() };
    let error = TcpStore::new("localhost", options()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::DistNetwork);
    let expected =
        format!("The client socket has timed out after 50ms while trying to connect to (localhost, {port}).");
    assert_eq!(error.message(), expected);
    let options = TcpOptions { port: 0, is_server: true, workers: Some(3), timeout: SHORT, ..TcpOptions::default() };
    let error = TcpStore::new("localhost", options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::DistStore);
    assert!(error.message().ends_with("waiting for clients. 1/3 clients joined."), "{error}");
}

#[test]
fn a_store_whose_rank_has_died_names_the_rank() {
    // A server that answers the first words of a client and then ends, as a process that is killed does.
    let server = TcpStore::new("localhost", TcpOptions { port: 0, is_server: true, ..TcpOptions::default() }).unwrap();
    let options = TcpOptions { port: server.port(), serving_rank: Some(0), timeout: LONG, ..TcpOptions::default() };
    let client = TcpStore::new("localhost", TcpOptions { wait_for_workers: false, ..options }).unwrap();
    client.set("key", b"value").unwrap();
    drop(server);
    let error = client.set("key", b"other").and_then(|()| client.get("key")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DistNetwork);
    assert!(error.message().ends_with("rank 0, which served the store, has died or left"), "{error}");
}

#[test]
fn a_port_serves_one_server_or_several_tenants() {
    let options = |port, multi_tenant| TcpOptions { port, is_server: true, multi_tenant, ..TcpOptions::default() };
    let first = TcpStore::new("localhost", options(0, true)).unwrap();
    let second = TcpStore::new("localhost", options(first.port(), true)).unwrap();
    first.set("key", b"value").unwrap();
    drop(first);
    assert_eq!(second.get("key").unwrap(), b"value");
    let error = TcpStore::new("localhost", options(second.port(), false)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::DistNetwork);
    assert!(error.message().starts_with("The server socket has failed to listen on any local network address."));
}

#[test]
fn the_end_of_the_server_is_an_error_of_its_clients() {
    let server = server();
    let store = Arc::new(client(server.port()));
    let waiting = {
        thread::spawn({
            let store = store.clone();
            move || store.get("never")
        })
    };
    thread::sleep(SHORT);
    drop(server);
    assert_eq!(waiting.join().unwrap().unwrap_err().kind(), ErrorKind::DistNetwork);
    let begin = Instant::now();
    assert_eq!(store.get("never").unwrap_err().kind(), ErrorKind::DistNetwork);
    assert_eq!(store.check(&["never"]).unwrap_err().kind(), ErrorKind::DistNetwork);
    assert!(begin.elapsed() < LONG / 4);
}

/// Send `bytes` to the server, and return all that it answers before it closes the connection.
fn send(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("localhost", port)).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A reset says the same as the end: the server has closed the connection with bytes unread.
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn the_server_drops_clients_that_break_the_protocol() {
    let server = server();
    let magic = [&[0][..], &0x3C85_F7CE_u32.to_le_bytes()].concat();
    let after_magic = |rest: &[&[u8]]| [&magic[..], &rest.concat()].concat();
    let length = |n: u64| n.to_le_bytes();
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0, 1, 2, 3, 4],
        vec![7],
        after_magic(&[&[200]]),
        // A key and a value that are too long, and too many keys.
        after_magic(&[&[3], &length(u64::MAX)]),
        after_magic(&[&[1], &length(1), b"k", &length(1 << 40)]),
        after_magic(&[&[5], &length(1 << 60)]),
        // Two waits at a time.
        after_magic(&[&[6], &length(1), &length(1), b"k", &[6], &length(1), &length(1), b"k"]),
    ] {
        assert_eq!(send(server.port(), &bytes), b"", "{bytes:?}");
    }
    server.set("key", b"value").unwrap();
    assert_eq!(server.get("key").unwrap(), b"value");
}

#[test]
fn a_client_that_dies_in_a_command_or_a_wait_leaves_the_server_working() {
    let server = server();
    let magic = [&[0][..], &0x3C85_F7CE_u32.to_le_bytes()].concat();
    for rest in [&[1, 4, 0][..], &[6, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, b'/', b'k']] {
        let mut stream = TcpStream::connect(("localhost", server.port())).unwrap();
        stream.write_all(&[&magic[..], rest].concat()).unwrap();
        thread::sleep(Duration::from_millis(5));
    }
    server.set("k", b"value").unwrap();
    assert_eq!(client(server.port()).get("k").unwrap(), b"value");
}

#[test]
fn a_slow_reader_gets_all_answers() {
    let server = server();
    let value = vec![7u8; 100_000];
    server.set("k", &value).unwrap();
    server.check(&["k"]).unwrap();
    let get = [&[3][..], &2u64.to_le_bytes(), b"/k"].concat();
    let magic = [&[0][..], &0x3C85_F7CE_u32.to_le_bytes()].concat();
    let mut stream = TcpStream::connect(("localhost", server.port())).unwrap();
    stream.write_all(&magic).unwrap();
    // 200 answers are more than the server and the kernel keep.
    stream.write_all(&get.repeat(200)).unwrap();
    thread::sleep(SHORT);
    let mut answer = vec![0; 200 * (8 + value.len())];
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.read_exact(&mut answer).unwrap();
    assert!(answer.chunks(8 + value.len()).all(|answer| answer[8..] == value));
}

#[test]
fn the_last_file_store_deletes_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let first = FileStore::new(&path, Some(2)).unwrap();
    let second = FileStore::new(&path, Some(2)).unwrap();
    first.set("key", b"value").unwrap();
    assert_eq!(second.get("key").unwrap(), b"value");
    drop(first);
    assert!(path.exists());
    drop(second);
    assert!(!path.exists());
}

#[test]
fn file_stores_write_the_records_of_pytorch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = FileStore::new(&path, None).unwrap();
    store.set("a", b"b").unwrap();
    store.delete_key("a").unwrap();
    store.add("c", 1).unwrap();
    let expected =
        b"\x09\0\0\0refcount/\x01\0\0\x001\x02\0\0\0/a\x01\0\0\0b\x03\0\0\0-/a\0\0\0\0\x02\0\0\0/c\x01\0\0\x001";
    assert_eq!(std::fs::read(&path).unwrap(), expected);
    // Bytes that are no record are refused, not guessed at.
    std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"\x09\0\0").unwrap();
    let error = store.check(&["c"]).unwrap_err();
    assert!(error.message().contains("the record at byte"), "{error}");
}

#[test]
fn ranks_meet_at_a_file_and_over_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let file = format!("file://{}/meet", folder.path().display());
    let probe = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let tcp = format!("tcp://127.0.0.1:{}", probe.local_addr().unwrap().port());
    drop(probe);
    for url in [file, tcp] {
        let join = |rank| rendezvous(&format!("{url}?rank={rank}&world_size=3"), LONG).unwrap();
        let sums: Vec<i64> = thread::scope(|scope| {
            let ranks: Vec<_> = (0..3)
                .map(|rank| {
                    scope.spawn(move || {
                        let place = join(rank);
                        assert_eq!((place.rank, place.world_size), (rank, 3));
                        let sum = place.store.add("sum", rank as i64 + 1).unwrap();
                        place.store.barrier("end", 3, None).unwrap();
                        sum
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        assert_eq!(sums.iter().max(), Some(&6), "{url}");
    }
    let lonely = format!("file://{}/lonely?rank=1&world_size=3", folder.path().display());
    let error = rendezvous(&lonely, SHORT).err().unwrap();
    assert!(error.message().contains("ranks 0, 2 have not joined, 1/3 ranks joined."), "{error}");
}
