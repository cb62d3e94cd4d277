//! A file below `state_path`, replaced as a whole without following a link.

use std::io;
use std::path::Path;

use berth_output::{ErrorCode, Failure};

/// Writes a file that only its owner may read, replacing the old one. After this returns, the file survives a power failure.
pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    write_with_mode(file, text, 0o600)
}

/// Replaces a secret like [`write()`], and keeps it readable for the group that could read the old file.
pub fn write_secret(file: &Path, text: &str) -> Result<(), Failure> {
    berth_files::replace_secret(file, text.as_bytes()).map_err(|error| not_written(file, &error))
}

/// Writes a file that every user may read, like [`write()`].
pub fn write_public(file: &Path, text: &str) -> Result<(), Failure> {
    write_with_mode(file, text, 0o644)
}

fn write_with_mode(file: &Path, text: &str, mode: u32) -> Result<(), Failure> {
    berth_files::replace(file, text.as_bytes(), mode).map_err(|error| not_written(file, &error))
}

fn not_written(file: &Path, error: &io::Error) -> Failure {
    let what = format!("cannot write {}", file.display());
    Failure::caused(ErrorCode::State, what, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_not_there_is_named_and_not_made() {
        let error = write(Path::new("/none/clouds.yaml"), "x").unwrap_err();
        assert!(error.explain().contains("/none/clouds.yaml"));
    }
}
