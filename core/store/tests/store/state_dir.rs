//! State files survive the kill of their writer.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use berth_store::state_dir::{StateDir, StateFiles};

const FOLDER: &str = "BERTH_TEST_STATE_FOLDER";
const SIZE: usize = 64 * 1024;

/// Not a test by itself: the child that the next test kills. Without the variable it ends at once.
#[tokio::test]
async fn writer_that_is_to_be_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let files = StateDir::open(Path::new(&folder)).unwrap();
    loop {
        for letter in [b'a', b'b', b'c'] {
            files.write("state", &[letter; SIZE]).await.unwrap();
        }
    }
}

fn spawn_writer(folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "state_dir::writer_that_is_to_be_killed"])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[tokio::test]
async fn a_kill_at_any_moment_leaves_whole_content() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..12 {
        let mut writer = spawn_writer(folder.path());
        while !folder.path().join("state").exists() {
            assert_eq!(writer.try_wait().unwrap(), None, "the writer continues");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_micros(700 * round));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let files = StateDir::open(folder.path()).unwrap();
        let content = files.read("state").await.unwrap().unwrap();
        assert_eq!(content.len(), SIZE, "round {round}");
        assert!(
            content.iter().all(|byte| *byte == content[0]),
            "round {round}"
        );
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "round {round}: nothing half-made is left");
    }
}
