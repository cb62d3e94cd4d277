//! `berth scheduler replay`: reads cases from a file and prints their results.

use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::Path;

use berth_config::regular_file::refusal;
use berth_output::{ErrorCode, Failure};
use berth_scheduler_cases::{CaseFileError, replay};

use super::explain::LARGEST;

/// Prints a line for each case.
///
/// Errors: the file cannot be read, contains no cases, or the output cannot be written.
pub(super) fn run(cases: &Path, out: &mut dyn Write) -> Result<(), Failure> {
    let done = match cases == Path::new("-") {
        true => replay(io::stdin().lock().take(LARGEST), out),
        false => {
            let file = open(cases).map_err(|error| unreadable(cases, &error))?;
            replay(file.take(LARGEST), out)
        }
    };
    done.map_err(|error| match error {
        CaseFileError::Write(error) => error.into(),
        CaseFileError::Read(error) => unreadable(cases, &error),
        error => Failure::caused(
            ErrorCode::BadValue,
            format!("{} cannot be replayed", cases.display()),
            &error,
        ),
    })
}

fn open(path: &Path) -> io::Result<File> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(refusal(&metadata));
    }
    File::open(path)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let what = format!("{} cannot be read", path.display());
    Failure::caused(ErrorCode::File, what, error)
}
