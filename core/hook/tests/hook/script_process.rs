//! A process that a script starts, by the number that it writes into a file.

use std::path::Path;
use std::time::Duration;

/// How long a script is given, one after the other until its process has begun in its time: on a busy machine that may be late.
pub(crate) const DEADLINES: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(8),
    Duration::from_secs(32),
];

/// The number, once it is written.
pub(crate) fn number(file: &Path) -> Option<u32> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

pub(crate) fn is_there(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until it is no more.
pub(crate) async fn is_gone(pid: u32) {
    let gone = async {
        while is_there(pid) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(60), gone).await;
    gone.expect("it is ended, and soon gone");
}
