//! A program that is given a document and answers with another one.

use std::process::Stdio;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::ChildStdin;

use super::{Ear, Hook, HookError, reaped};

/// What a program is asked.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// What follows its name.
    pub arguments: &'a [&'a str],
    /// What it reads; one that does not read it has answered without.
    pub document: &'a [u8],
    /// The most that it may write, in bytes.
    pub most: usize,
}

/// It wrote more than it may.
struct TooLong;

impl Hook {
    /// Runs it to its end and gives back what it wrote; dropped, it is ended. Its end is seen only when all that holds its standard
    /// output or error has ended, too.
    pub async fn answer(&self, asked: Asked<'_>) -> Result<Vec<u8>, HookError> {
        let mut command = self.command();
        command
            .args(asked.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let (mut child, mut running) = self.start(command).await?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut ear = Ear::default();
        let ending = async {
            let (stdin, stdout, stderr) = pipes;
            let hearing = async {
                if let Some(stderr) = stderr {
                    ear.listen(stderr).await;
                }
                Ok(())
            };
            let told = async {
                tell(stdin, asked.document).await;
                Ok(())
            };
            let (written, (), ()) = tokio::try_join!(read(stdout, asked.most), hearing, told)?;
            Ok((written, child.wait().await))
        };
        match tokio::time::timeout(self.deadline, ending).await {
            Ok(Ok((written, ended))) => {
                running.ended();
                self.said_yes(ended, &ear).map(|()| written)
            }
            Ok(Err(TooLong)) => {
                drop(running);
                reaped(child).await;
                Err(HookError::TooLong {
                    called: self.called,
                    program: self.program.clone(),
                    most: asked.most,
                })
            }
            Err(_) => {
                drop(running);
                reaped(child).await;
                Err(self.late(&ear))
            }
        }
    }
}

/// Whether it reads all of it is its own affair.
async fn tell(stdin: Option<ChildStdin>, document: &[u8]) {
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
