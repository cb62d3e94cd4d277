//! Writes sysfs attributes. This is the only place that changes the device tree.
//!
//! Every change is one write to one existing attribute, named by its path below the root. Tests inject faults at these
//! writes. The callers ([`DeviceTree`](crate::DeviceTree)) read the state before each write, so they notice a previous
//! write that had been executed without a result.

use std::fs::OpenOptions;
use std::future::Future;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::oneshot;

/// A write that failed, or has an unknown result.
#[derive(Debug, thiserror::Error)]
pub enum AttributeError {
    /// The attribute does not exist: the device is gone, its driver is not loaded, or the kernel is too old.
    #[error("{} does not exist", path.display())]
    Missing { path: PathBuf },
    /// The kernel refused it.
    #[error("the kernel refused {content:?} for {}", path.display())]
    Refused {
        path: PathBuf,
        content: String,
        source: io::Error,
    },
    /// The write timed out; it may still be executed.
    #[error("writing {content:?} to {} timed out after {limit:?}", path.display())]
    TimedOut {
        path: PathBuf,
        content: String,
        /// How long was waited.
        limit: Duration,
    },
}

/// The future result of a write.
pub type WriteFuture<'a> = Pin<Box<dyn Future<Output = Result<(), AttributeError>> + Send + 'a>>;

/// The attributes of a device tree, to be written.
pub trait AttributeWrites: Send + Sync {
    /// Writes `content` at once to the attribute `name`, a path below the tree's root such as `bus/pci/drivers_probe`.
    /// Never creates a file.
    fn write<'a>(&'a self, name: &'a str, content: &'a str) -> WriteFuture<'a>;
}

/// The attributes of the running kernel.
#[derive(Debug, Clone)]
pub struct KernelAttributes {
    root: PathBuf,
    limit: Duration,
}

impl KernelAttributes {
    /// The attributes below `root`, which is `/sys` on a host. A write that takes longer than `limit` is abandoned:
    /// some block while the device is in use (unbinding a driver, resetting a function).
    #[must_use]
    pub fn at(root: impl Into<PathBuf>, limit: Duration) -> Self {
        Self {
            root: root.into(),
            limit,
        }
    }
}

impl AttributeWrites for KernelAttributes {
    fn write<'a>(&'a self, name: &'a str, content: &'a str) -> WriteFuture<'a> {
        Box::pin(async move {
            let path = self.root.join(name);
            let (answer, waiting) = oneshot::channel();
            let (target, bytes) = (path.clone(), content.to_owned());
            // A separate thread: if it hangs in the kernel, the runtime can still shut down.
            let started = std::thread::Builder::new()
                .name("sysfs write".to_owned())
                .spawn(move || {
                    let _ = answer.send(write(&target, &bytes));
                });
            let outcome = match started {
                Ok(_) => tokio::time::timeout(self.limit, waiting).await,
                Err(error) => Ok(Ok(Err(error))),
            };
            let content = content.to_owned();
            match outcome {
                Ok(Ok(Ok(()))) => Ok(()),
                Ok(Ok(Err(error))) if error.kind() == io::ErrorKind::NotFound => {
                    Err(AttributeError::Missing { path })
                }
                Ok(Ok(Err(source))) => Err(AttributeError::Refused {
                    path,
                    content,
                    source,
                }),
                Ok(Err(_)) | Err(_) => Err(AttributeError::TimedOut {
                    path,
                    content,
                    limit: self.limit,
                }),
            }
        })
    }
}

fn write(path: &std::path::Path, content: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    // The kernel takes an attribute in one write or not at all.
    match file.write(content.as_bytes())? {
        written if written == content.len() => Ok(()),
        _ => Err(io::Error::from(io::ErrorKind::WriteZero)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn an_attribute_is_written_and_never_made() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("there"), "old").unwrap();
        let attributes = KernelAttributes::at(directory.path(), LIMIT);
        attributes.write("there", "new").await.unwrap();
        let held = std::fs::read_to_string(directory.path().join("there")).unwrap();
        assert_eq!(held, "new");
        let missing = attributes.write("not_there", "new").await;
        assert!(
            matches!(missing, Err(AttributeError::Missing { .. })),
            "{missing:?}"
        );
        assert!(!directory.path().join("not_there").exists());
    }

    #[tokio::test]
    async fn what_the_kernel_refuses_names_the_attribute_and_what_was_written() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("sriov_numvfs")).unwrap();
        let attributes = KernelAttributes::at(directory.path(), LIMIT);
        let text = attributes
            .write("sriov_numvfs", "4")
            .await
            .unwrap_err()
            .to_string();
        assert!(
            text.contains("sriov_numvfs") && text.contains("\"4\""),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_write_that_hangs_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("unbind");
        // Opening a pipe without a reader blocks.
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let attributes = KernelAttributes::at(directory.path(), Duration::from_millis(1));
        let hung = attributes.write("unbind", "x").await;
        assert!(
            matches!(hung, Err(AttributeError::TimedOut { .. })),
            "{hung:?}"
        );
        drop(std::fs::File::open(&pipe).unwrap());
    }
}
