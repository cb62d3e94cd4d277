//! State files in memory, because the disk flushes would dominate the time of thousands of runs.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};

use berth_store::state_dir::{StateFileError, StateFileFuture, StateFiles};

/// State files in memory. They outlive the process lives of a node, as a disk does.
#[derive(Debug, Default)]
pub struct MemoryFiles(Mutex<BTreeMap<String, Vec<u8>>>);

impl MemoryFiles {
    /// All files by name.
    #[must_use]
    pub fn content(&self) -> BTreeMap<String, String> {
        let files = self.files();
        let text = |content: &Vec<u8>| String::from_utf8_lossy(content).trim().to_owned();
        files
            .iter()
            .map(|(name, content)| (name.clone(), text(content)))
            .collect()
    }

    /// Puts a file there.
    pub fn put(&self, name: &str, content: &str) {
        self.files()
            .insert(name.to_owned(), content.as_bytes().to_vec());
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateFiles for MemoryFiles {
    fn path(&self, name: &str) -> String {
        format!("/var/lib/berth/{name}")
    }

    fn read<'a>(&'a self, name: &'a str) -> StateFileFuture<'a, Option<Vec<u8>>> {
        Box::pin(ready(Ok(self.files().get(name).cloned())))
    }

    fn write<'a>(&'a self, name: &'a str, content: &'a [u8]) -> StateFileFuture<'a, ()> {
        self.files().insert(name.to_owned(), content.to_vec());
        Box::pin(ready(Ok(())))
    }

    fn create<'a>(&'a self, name: &'a str, content: &'a [u8]) -> StateFileFuture<'a, ()> {
        let mut files = self.files();
        let made = if files.contains_key(name) {
            Err(StateFileError::Exists {
                path: self.path(name),
            })
        } else {
            files.insert(name.to_owned(), content.to_vec());
            Ok(())
        };
        Box::pin(ready(made))
    }

    fn remove<'a>(&'a self, name: &'a str) -> StateFileFuture<'a, ()> {
        self.files().remove(name);
        Box::pin(ready(Ok(())))
    }
}
