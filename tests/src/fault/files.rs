//! Fault injection for the state files of a node.

use std::io;
use std::sync::Arc;

use berth_fault_injection::{Boundary, Effect, EffectOutcome, Fault};
use berth_store::state_dir::{StateFileError, StateFileFuture, StateFiles};

use super::FaultStage;
use super::stage::{AbandonedEffect, EffectAction};

/// State files with reads and writes that pass a stage's gate.
pub struct GatedFiles {
    inner: Arc<dyn StateFiles>,
    stage: FaultStage,
}

impl GatedFiles {
    /// The files behind the stage's gate.
    #[must_use]
    pub fn around(inner: Arc<dyn StateFiles>, stage: &FaultStage) -> Self {
        Self {
            inner,
            stage: stage.clone(),
        }
    }

    async fn change(
        &self,
        operation: &'static str,
        name: &str,
        change: FileWriteKind,
    ) -> Result<(), StateFileError> {
        let crossing = Effect::write(Boundary::Store, operation, name);
        let act = FileWriteCall {
            files: Arc::clone(&self.inner),
            name: name.to_owned(),
            change,
        };
        self.stage.cross(&crossing, &act).await
    }
}

impl StateFiles for GatedFiles {
    fn path(&self, name: &str) -> String {
        self.inner.path(name)
    }

    fn read<'a>(&'a self, name: &'a str) -> StateFileFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let crossing = Effect::read(Boundary::Store, "read", name);
            let act = FileReadCall {
                files: self.inner.as_ref(),
                name,
            };
            self.stage.cross(&crossing, &act).await
        })
    }

    fn write<'a>(&'a self, name: &'a str, content: &'a [u8]) -> StateFileFuture<'a, ()> {
        Box::pin(self.change("write", name, FileWriteKind::Write(content.to_vec())))
    }

    fn create<'a>(&'a self, name: &'a str, content: &'a [u8]) -> StateFileFuture<'a, ()> {
        Box::pin(self.change("create", name, FileWriteKind::Create(content.to_vec())))
    }

    fn remove<'a>(&'a self, name: &'a str) -> StateFileFuture<'a, ()> {
        Box::pin(self.change("remove", name, FileWriteKind::Remove))
    }
}

struct FileReadCall<'a> {
    files: &'a dyn StateFiles,
    name: &'a str,
}

impl EffectAction for FileReadCall<'_> {
    type Value = Result<Option<Vec<u8>>, StateFileError>;

    async fn perform(&self) -> Self::Value {
        self.files.read(self.name).await
    }

    fn outcome(&self, read: &Self::Value) -> EffectOutcome {
        match read {
            Ok(None) => EffectOutcome::Done("no file".to_owned()),
            Ok(Some(content)) => EffectOutcome::Done(format!("{} bytes", content.len())),
            Err(error) => EffectOutcome::Failed(kind(error).to_owned()),
        }
    }

    fn result_if_prevented(&self, fault: Fault) -> Self::Value {
        Err(failed(self.files, self.name, fault))
    }

    fn result_if_failed_after(&self, read: Self::Value, fault: Fault) -> Self::Value {
        let content = read?;
        Ok(content.map(|mut content| match fault {
            Fault::Truncated => {
                content.truncate(content.len() / 2);
                content
            }
            _ => b"\0\xff no state file".to_vec(),
        }))
    }

    fn detached(&self) -> AbandonedEffect {
        Box::pin(std::future::ready(()))
    }
}

#[derive(Clone)]
enum FileWriteKind {
    Write(Vec<u8>),
    Create(Vec<u8>),
    Remove,
}

struct FileWriteCall {
    files: Arc<dyn StateFiles>,
    name: String,
    change: FileWriteKind,
}

impl EffectAction for FileWriteCall {
    type Value = Result<(), StateFileError>;

    async fn perform(&self) -> Self::Value {
        match &self.change {
            FileWriteKind::Write(content) => self.files.write(&self.name, content).await,
            FileWriteKind::Create(content) => self.files.create(&self.name, content).await,
            FileWriteKind::Remove => self.files.remove(&self.name).await,
        }
    }

    fn outcome(&self, written: &Self::Value) -> EffectOutcome {
        match written {
            Ok(()) => EffectOutcome::Done("written".to_owned()),
            Err(error) => EffectOutcome::Failed(kind(error).to_owned()),
        }
    }

    fn result_if_prevented(&self, fault: Fault) -> Self::Value {
        Err(failed(self.files.as_ref(), &self.name, fault))
    }

    /// A failed atomic write leaves the old content, or the new one in spite of the error: here the new one.
    fn result_if_failed_after(&self, _: Self::Value, fault: Fault) -> Self::Value {
        Err(failed(self.files.as_ref(), &self.name, fault))
    }

    fn detached(&self) -> AbandonedEffect {
        let (files, name, change) = (
            Arc::clone(&self.files),
            self.name.clone(),
            self.change.clone(),
        );
        let writing = FileWriteCall {
            files,
            name,
            change,
        };
        // The caller no longer waits for the result.
        Box::pin(async move { drop(writing.perform().await) })
    }
}

fn failed(files: &dyn StateFiles, name: &str, fault: Fault) -> StateFileError {
    let path = files.path(name);
    match fault {
        Fault::DiskFull => StateFileError::DiskFull {
            path,
            source: io::Error::from(io::ErrorKind::StorageFull),
        },
        _ => StateFileError::Io {
            path,
            source: io::Error::other("input/output error"),
        },
    }
}

fn kind(error: &StateFileError) -> &'static str {
    match error {
        StateFileError::DiskFull { .. } => "disk full",
        StateFileError::Permission { .. } => "no permission",
        StateFileError::Exists { .. } => "exists",
        StateFileError::TooLarge { .. } => "too large",
        StateFileError::Io { .. } => "input/output error",
    }
}
