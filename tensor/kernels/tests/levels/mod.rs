//! Reruns the tests of a file at every instruction set below the machine's default.

use std::process::Command;
use torchtpu_kernels::cpu::{Level, level, machine};

#[test]
fn tests_pass_at_every_level() {
    if std::env::var_os("TORCHTPU_CPU_SIMD").is_some() {
        // This process is one of the child processes started below.
        return;
    }
    let program = std::env::current_exe().unwrap();
    for other in Level::ALL.into_iter().filter(|&l| l <= machine() && l != level()) {
        let output = Command::new(&program)
            .args(["--skip", "tests_pass_at_every_level"])
            .env("TORCHTPU_CPU_SIMD", other.name())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "at level {}:\n{text}", other.name());
        assert!(text.contains("0 failed") && !text.contains(" 0 passed"), "nothing ran at level {}", other.name());
    }
}
