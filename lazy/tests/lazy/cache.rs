//! Tests of the disk cache, and of the start and end of processes.

use crate::{tpu, turn, values};
use std::path::Path;
use std::process::{Command, Output};
use torchtpu_lazy as lazy;

const CHILD: &str = "TORCHTPU_TEST_CHILD";

/// Whether this process is a child that a test started.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Run `cache::child_process` in a child process. `what` selects its work.
fn child(what: &str, folder: &Path, more: &[(&str, &str)]) -> (Output, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "cache::child_process", "--nocapture", "--test-threads=1"]);
    command.env(CHILD, what).env("TORCHTPU_CACHE_DIR", folder).env_remove("TORCHTPU_CACHE");
    command.envs(more.iter().copied());
    let output = command.output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output, text)
}

/// The work of a child process. Without the variable, it is an ordinary computation.
#[test]
fn child_process() {
    let what = std::env::var(CHILD).unwrap_or_default();
    if what == "no plugin" {
        lazy::install();
        let x = torchtpu_tensor::Tensor::from_slice(&[1.0f32], &[1]).unwrap();
        for _ in 0..2 {
            let e = x.to_device(torchtpu_tensor::Device::TPU).unwrap_err();
            println!("error: {e}");
        }
        assert!(!lazy::is_available());
        assert_eq!(values(&x.add(&x).unwrap()), [2.0], "the cpu goes on");
        return;
    }
    let _turn = turn();
    let x = tpu(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let y = x.matmul(&x).unwrap().add_scalar(1.0).unwrap().tanh().unwrap();
    let z = x.mul(&x).unwrap().sum().unwrap();
    assert_eq!(values(&z), [30.0]);
    assert!(values(&y).iter().all(|v| *v > 0.9));
    lazy::synchronize().unwrap();
    let m = lazy::metrics();
    println!("counts: {} {} {}", m.compilations, m.disk_cache_hits, m.disk_cache_rejected);
    if what == "exit with pending work" {
        let big = tpu(&vec![0.5; 1 << 20], &[1024, 1024]);
        let mut h = big.matmul(&big).unwrap();
        for _ in 0..5 {
            h = h.matmul(&big).unwrap();
            lazy::mark_step();
        }
        let pending = h.add(&big).unwrap();
        std::mem::forget((h, pending));
        std::process::exit(7);
    }
}

fn counts(text: &str) -> Vec<u64> {
    let line = text.lines().find_map(|l| l.split("counts: ").nth(1)).unwrap_or_else(|| panic!("no counts in:\n{text}"));
    line.split_whitespace().map(|n| n.parse().unwrap()).collect()
}

#[test]
fn a_second_process_loads_programs_from_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let (first, text) = child("compute", dir.path(), &[]);
    assert!(first.status.success(), "{text}");
    let compiled = counts(&text)[0];
    assert!(compiled > 0 && counts(&text)[1] == 0, "{text}");
    let (second, text) = child("compute", dir.path(), &[]);
    assert!(second.status.success(), "{text}");
    assert_eq!(counts(&text), [0, compiled, 0]);
}

#[test]
fn a_damaged_file_is_discarded_with_a_warning_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let (_, text) = child("compute", dir.path(), &[]);
    let compiled = counts(&text)[0];
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    let (damaged, text) = child("compute", dir.path(), &[]);
    assert!(damaged.status.success(), "{text}");
    assert_eq!(counts(&text), [compiled, 0, compiled]);
    assert!(text.contains("warning: discarding"), "{text}");
    let (_, text) = child("compute", dir.path(), &[]);
    assert_eq!(counts(&text), [0, compiled, 0]);
}

#[test]
fn the_cache_can_be_switched_off() {
    let dir = tempfile::tempdir().unwrap();
    let (out, text) = child("compute", dir.path(), &[("TORCHTPU_CACHE", "0")]);
    assert!(out.status.success(), "{text}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn several_processes_can_fill_the_cache_at_once() {
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|s| {
        let runs: Vec<_> = (0..3).map(|_| s.spawn(|| child("compute", dir.path(), &[]))).collect();
        for run in runs {
            let (out, text) = run.join().unwrap();
            assert!(out.status.success() && counts(&text)[2] == 0, "{text}");
        }
    });
    let (_, text) = child("compute", dir.path(), &[]);
    assert_eq!((counts(&text)[0], counts(&text)[2]), (0, 0));
}

#[test]
fn a_missing_plugin_is_an_error_and_the_cpu_stays_usable() {
    let dir = tempfile::tempdir().unwrap();
    let (out, text) = child("no plugin", dir.path(), &[("TORCHTPU_PJRT_PLUGIN", "/nonexistent/plugin.so")]);
    assert!(out.status.success(), "{text}");
    assert_eq!(text.matches("error: device tpu is not available: ").count(), 2, "{text}");
    assert!(text.contains("/nonexistent/plugin.so"), "{text}");
}

#[test]
fn a_process_can_exit_with_pending_work() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let (out, text) = child("exit with pending work", dir.path(), &[]);
        assert_eq!(out.status.code(), Some(7), "{text}");
    }
}

#[test]
fn every_program_can_be_dumped() {
    let dir = tempfile::tempdir().unwrap();
    let dump = dir.path().join("dump");
    let (_, text) = child("compute", dir.path(), &[("TORCHTPU_DUMP_DIR", dump.to_str().unwrap())]);
    let files: Vec<_> = std::fs::read_dir(&dump).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(files.len() as u64, counts(&text)[0]);
    assert!(files.iter().any(|f| std::fs::read_to_string(f).unwrap().contains("stablehlo.dot_general")));
}
