//! Directories for one test process, removed when dropped. Because a `static` is never dropped, the next test process
//! sweeps those of dead owners.

use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

/// Every directory is called `PREFIX` + process id + `-` + number, so a sweeper knows the owner from the name.
const PREFIX: &str = "berth-test-";

/// A directory that is removed when this value goes.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes an empty directory under the system's temporary one.
    pub fn new() -> io::Result<Self> {
        static SWEEP: Once = Once::new();
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        SWEEP.call_once(sweep);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("{PREFIX}{}-{number}", std::process::id()));
        // Process ids are reused; an existing directory belongs to a dead process with the same id.
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir(&path)?;
        Ok(Self { path })
    }

    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of something inside.
    #[must_use]
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // `BERTH_KEEP_SCRATCH=1` keeps everything for inspection after a failure.
        if std::env::var_os("BERTH_KEEP_SCRATCH").is_none() {
            // A file that appears while its directory is removed is left to the sweep.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Removes the directories of test processes that are no more.
fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(owner_of);
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Another test process may sweep concurrently; the second one finds nothing.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process id in a directory's name, where it is one of ours.
fn owner_of(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

/// Copies a directory with all that is in it; a template becomes a test's own.
pub fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    fs::set_permissions(to, fs::metadata(from)?.permissions())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_removed_with_its_value() {
        let scratch = Scratch::new().expect("a directory");
        let path = scratch.path().to_path_buf();
        fs::write(path.join("file"), "x").expect("a file");
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn only_names_of_ours_have_an_owner() {
        assert_eq!(owner_of("berth-test-12-0"), Some(12));
        for foreign in [
            "berth-test-",
            "berth-test-12",
            "berth-test-x-0",
            "other-12-0",
        ] {
            assert_eq!(owner_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_copied_tree_holds_the_same_files() {
        let (from, to) = (Scratch::new().expect("from"), Scratch::new().expect("to"));
        fs::create_dir(from.join("inner")).expect("inner");
        fs::write(from.join("inner/file"), "words").expect("file");
        copy_tree(from.path(), &to.join("copy")).expect("copied");
        assert_eq!(
            fs::read_to_string(to.join("copy/inner/file")).expect("read"),
            "words"
        );
    }
}
