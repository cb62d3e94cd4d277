//! Reads the directory of provider files: selects the files, and refuses unusable ones before they are parsed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::provider_config::entry::ProviderConfigs;
use crate::provider_config::parse;

/// Largest file size in bytes.
const LARGEST: u64 = 1 << 20;

/// A file or the directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProviderFileError {
    /// The file cannot be read.
    #[error("{path} cannot be read")]
    Unreadable {
        /// Path of the file or of the directory.
        path: String,
        #[source]
        source: io::Error,
    },
    /// The file is not valid YAML.
    #[error("{path} is not valid YAML: {reason}")]
    Malformed {
        path: String,
        /// Reason with the line number.
        reason: String,
    },
    /// A key or value is invalid.
    #[error("{path}: {key}: {wrong}; {right}")]
    Refused {
        path: String,
        /// Path of the key, for example `providers[0].traits.additional[1]`.
        key: String,
        wrong: String,
        /// What would be valid.
        right: String,
    },
}

impl ProviderConfigs {
    /// Reads all files `*.yaml` of the directory in the order of their names, without hidden ones. A missing directory has no entries.
    pub fn read(directory: &Path) -> Result<Self, Vec<ProviderFileError>> {
        let files = files(directory).map_err(|error| vec![unreadable(directory, error)])?;
        let mut configs = Self::default();
        let mut wrong = Vec::new();
        for path in files {
            let shown = path.display().to_string();
            let read = text(&path).map_err(|error| unreadable(&path, error));
            match read.and_then(|text| parse::entries(&shown, &text)) {
                Ok(entries) => configs.entries.extend(entries),
                Err(error) => wrong.push(error),
            }
        }
        let mut seen = BTreeMap::new();
        for entry in &configs.entries {
            if let Some(first) = seen.insert(&entry.provider, &entry.file) {
                wrong.push(ProviderFileError::Refused {
                    path: entry.file.clone(),
                    key: "providers".to_owned(),
                    wrong: format!("{} already has an entry in {first}", entry.provider),
                    right: "merge the two entries".to_owned(),
                });
            }
        }
        if wrong.is_empty() {
            Ok(configs)
        } else {
            Err(wrong)
        }
    }
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        // Hidden files are those of editors and package managers, such as `.a.yaml.swp` or `.a.yaml`.
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        let path = entry.path();
        if !is_hidden && path.extension().is_some_and(|it| it == "yaml") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn text(path: &Path) -> io::Result<String> {
    // Reading a pipe or a device would not end.
    if !fs::metadata(path)?.is_file() {
        let reason = "it is not a regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let mut text = String::new();
    File::open(path)?
        .take(LARGEST + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is larger than {LARGEST} bytes"),
        ));
    }
    Ok(text)
}

fn unreadable(path: &Path, source: io::Error) -> ProviderFileError {
    let path = path.display().to_string();
    ProviderFileError::Unreadable { path, source }
}
