//! Child processes that end with the tests.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long anything may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The folder that `make peers` filled, with RabbitMQ and the Python environment of the real services.
pub(crate) fn peers() -> PathBuf {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::var_os("BERTH_PEERS")
        .map_or_else(|| checkout.join("target/peers"), PathBuf::from);
    assert!(
        folder.join("stamp").is_file(),
        "{} has no peers: run make peers",
        folder.display()
    );
    folder
}

/// The folder below `parent` whose name is a prefix and a version.
pub(crate) fn only(parent: &Path, prefix: &str) -> PathBuf {
    let entries = parent
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let named = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_string_lossy()
            .starts_with(prefix)
    };
    entries
        .into_iter()
        .find(named)
        .unwrap_or_else(|| panic!("{prefix} in {}", parent.display()))
}

/// A program that the kernel kills when the tests end.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "--"])
        .arg(program)
        .stdin(Stdio::null());
    command.process_group(0);
    command
}

pub(crate) fn log_to(command: &mut Command, log: &Path) {
    let open = || File::options().create(true).append(true).open(log).unwrap();
    command.stdout(open()).stderr(open());
}

/// Starts a program from a thread that lives as long as the tests: the kernel's signal is for the end of the thread that started it.
pub(crate) fn spawn(command: Command) -> Child {
    type Order = (Command, Sender<io::Result<Child>>);
    static KEEPER: OnceLock<Mutex<Sender<Order>>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let (orders, received) = channel::<Order>();
        std::thread::spawn(move || {
            for (mut command, answer) in received {
                answer.send(command.spawn()).unwrap();
            }
        });
        Mutex::new(orders)
    });
    let (answer, child) = channel();
    keeper.lock().unwrap().send((command, answer)).unwrap();
    child.recv().unwrap().unwrap()
}

/// Waits until something is true.
pub(crate) fn wait_until(what: &str, mut is_true: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_true() {
        assert!(
            begin.elapsed() < LIMIT,
            "{what}: not in {} s",
            LIMIT.as_secs()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The same for a future.
pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(LIMIT, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what}: not in {} s", LIMIT.as_secs()),
    }
}
