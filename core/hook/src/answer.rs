//! Runs a hook that reads a document from standard input and writes another one to standard output.

use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::ChildStdin;

use super::{Hook, HookError, StderrCapture, reaped};

/// The input of a hook.
#[derive(Debug, Clone, Copy)]
pub struct HookInput<'a> {
    pub arguments: &'a [&'a str],
    /// Its standard input. The program need not read it.
    pub document: &'a [u8],
    /// The maximum size of its standard output, in bytes.
    pub most: usize,
}

/// The output exceeds the maximum.
struct TooLong;

impl Hook {
    /// Runs the program to its end and returns its output. Dropping the future kills it. The run ends only when all processes with its
    /// standard output or error have ended.
    pub async fn answer(&self, asked: HookInput<'_>) -> Result<Vec<u8>, HookError> {
        let mut command = self.command();
        command
            .args(asked.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let (mut child, mut running) = self.start(command).await?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut capture = StderrCapture::default();
        let ending = async {
            let (stdin, stdout, stderr) = pipes;
            let hearing = async {
                if let Some(stderr) = stderr {
                    capture.listen(stderr).await;
                }
                Ok(())
            };
            let sending = async {
                write_document(stdin, asked.document).await;
                Ok(())
            };
            let (written, (), ()) = tokio::try_join!(read(stdout, asked.most), hearing, sending)?;
            Ok((written, child.wait().await))
        };
        match tokio::time::timeout(self.deadline, ending).await {
            Ok(Ok((written, ended))) => {
                running.ended();
                self.check_exit(ended, &capture).map(|()| written)
            }
            Ok(Err(TooLong)) => {
                drop(running);
                reaped(child).await;
                Err(HookError::TooLong {
                    name: self.name,
                    program: self.program.clone(),
                    most: asked.most,
                })
            }
            Err(_) => {
                drop(running);
                reaped(child).await;
                Err(self.late(&capture))
            }
        }
    }
}

/// The program may end before it has read everything.
async fn write_document(stdin: Option<ChildStdin>, document: &[u8]) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(document).await;
    }
}

async fn read(stdout: Option<impl AsyncRead + Unpin>, most: usize) -> Result<Vec<u8>, TooLong> {
    let mut written = Vec::new();
    let Some(mut stdout) = stdout else {
        return Ok(written);
    };
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = stdout.read(&mut part).await {
        if written.len() + length > most {
            return Err(TooLong);
        }
        written.extend_from_slice(&part[..length]);
    }
    Ok(written)
}
