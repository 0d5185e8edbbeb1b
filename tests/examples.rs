//! The example of data parallel training, which starts two processes of itself.

use std::process::Command;

/// Images and labels of the digits, as scikit-learn's file: 64 pixels and a label in each line. Each digit is a bright
/// row of its own.
fn digits() -> String {
    let line = |i: usize| {
        let label = i % 10;
        let pixels = (0..64).map(|p| if p / 6 == label { 12 + i % 5 } else { (i * p) % 3 });
        pixels.chain([label]).map(|n| n.to_string()).collect::<Vec<_>>().join(",") + "\n"
    };
    (0..1797).map(line).collect()
}

#[test]
fn two_ranks_train() {
    let folder = tempfile::tempdir().expect("the folder is made");
    let data = folder.path().join("digits.csv");
    std::fs::write(&data, digits()).expect("the folder is writable");
    let run = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--example", "ddp", "--", "--steps", "60", "--data"])
        .arg(&data)
        .output()
        .expect("`cargo run` starts");
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{text}{}", String::from_utf8_lossy(&run.stderr));
    let losses: Vec<f64> = text.lines().filter_map(|l| l.split("loss ").nth(1)?.parse().ok()).collect();
    assert!(losses.len() == 3 && losses[2] < losses[0], "{text}");
    let score = text.split("accuracy  ").nth(1).and_then(|t| t.split(' ').next()?.parse::<f64>().ok());
    assert!(score.is_some_and(|s| s > 90.0), "{text}");
}
