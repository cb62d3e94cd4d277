//! Finds and reads the configuration files. [`load`](super::load) parses them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use berth_output::ErrorCode;

use super::file::ConfigDocument;
use super::problem::ConfigProblem;
use crate::regular_file;

/// The default configuration file.
pub const FILE: &str = "/etc/berth/berth.toml";
/// The default directory with further files `*.toml`, in the order of their names.
pub const DIRECTORY: &str = "/etc/berth/berth.d";
/// Larger than any configuration: a larger file is a mistake.
const LARGEST_FILE: u64 = 1 << 20;

/// The sources of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sources {
    /// `--config`: this file instead of the default one; it must exist, and the default directory is not read.
    pub file: Option<PathBuf>,
    /// `--config-dir`: the `*.toml` of this directory; it must exist.
    pub directory: Option<PathBuf>,
    /// `--machine`: the fake driver with this file, independent of the configuration.
    pub machine: Option<PathBuf>,
    /// `--state-dir`: state and admin socket in this folder, independent of the configuration.
    pub state_dir: Option<PathBuf>,
    /// `$CREDENTIALS_DIRECTORY`: the folder with the credentials that the service manager gives to this process.
    pub credentials: Option<PathBuf>,
    /// The environment; variables that do not begin with `BERTH_` are ignored.
    pub environment: Vec<(OsString, OsString)>,
}

impl Sources {
    /// The default files and this process's environment.
    #[must_use]
    pub fn of_process(file: Option<PathBuf>, directory: Option<PathBuf>) -> Self {
        let ours = |name: &OsString| name.as_encoded_bytes().starts_with(b"BERTH_");
        Self {
            file,
            directory,
            machine: None,
            state_dir: None,
            credentials: std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from),
            environment: std::env::vars_os().filter(|(name, _)| ours(name)).collect(),
        }
    }

    /// Describes that none of the default files exists.
    #[must_use]
    pub fn without_files(&self) -> String {
        let directory = self.directory.as_deref().unwrap_or(Path::new(DIRECTORY));
        format!(
            "there is no configuration file: neither {FILE} nor a *.toml in {} is there, and every option that nothing \
             else sets has its default",
            directory.display()
        )
    }
}

#[derive(Debug, Default)]
pub(super) struct SourceFiles {
    /// The files that could be read, in order.
    pub(super) documents: Vec<ConfigDocument>,
    /// The files that everybody may read.
    pub(super) world_readable: BTreeSet<String>,
    /// The paths of the files that could be read, and of the directory.
    pub(super) paths: Vec<PathBuf>,
    /// The problems of the files that could not be read.
    pub(super) unreadable: Vec<ConfigProblem>,
}

/// Reads every file that the sources name.
pub(super) fn read_all(sources: &Sources) -> SourceFiles {
    let mut found = SourceFiles::default();
    if let Some((directory, _)) = directory(sources) {
        found.paths.push(directory);
    }
    for (path, presence) in files(sources, &mut found.unreadable) {
        match read(&path) {
            Ok((document, mode)) => {
                if mode & 0o004 != 0 {
                    found.world_readable.insert(document.name.clone());
                }
                found.documents.push(document);
                found.paths.push(path);
            }
            Err(error)
                if presence == Presence::Optional && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => found.unreadable.push(unreadable_file(&path, &error)),
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    Required,
    Optional,
}

/// The directory to read files from, if any.
fn directory(sources: &Sources) -> Option<(PathBuf, Presence)> {
    match (&sources.directory, &sources.file) {
        (Some(directory), _) => Some((directory.clone(), Presence::Required)),
        (None, None) => Some((PathBuf::from(DIRECTORY), Presence::Optional)),
        (None, Some(_)) => None,
    }
}

/// The files to read, in order; a directory that cannot be read is a problem.
fn files(sources: &Sources, problems: &mut Vec<ConfigProblem>) -> Vec<(PathBuf, Presence)> {
    let mut files = match &sources.file {
        Some(file) => vec![(file.clone(), Presence::Required)],
        None => vec![(PathBuf::from(FILE), Presence::Optional)],
    };
    if let Some((directory, presence)) = directory(sources) {
        match fragments(&directory) {
            Ok(found) => files.extend(found.into_iter().map(|path| (path, Presence::Required))),
            Err(error)
                if presence == Presence::Optional && error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => problems.push(ConfigProblem {
                right: match error.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                        "name a directory that exists".to_owned()
                    }
                    _ => unreadable_file(&directory, &error).right,
                },
                ..unreadable_file(&directory, &error)
            }),
        }
    }
    files
}

/// The `*.toml` of a directory in the order of their names; hidden files are left out.
fn fragments(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let hidden = path
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
            && !hidden
        {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> io::Result<(ConfigDocument, u32)> {
    let (content, metadata) = regular_file::read(path, LARGEST_FILE)?;
    let text = String::from_utf8(content)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok((
        ConfigDocument {
            name: path.display().to_string(),
            text,
        },
        metadata.permissions().mode(),
    ))
}

fn unreadable_file(path: &Path, error: &io::Error) -> ConfigProblem {
    let right = match error.kind() {
        io::ErrorKind::NotFound => {
            "name a file that exists, or leave the option out for the usual files"
        }
        io::ErrorKind::PermissionDenied => "run as root, or as a user that may read it",
        io::ErrorKind::InvalidData => "save it as UTF-8",
        io::ErrorKind::FileTooLarge => "a configuration file has at most 1 MiB",
        _ => "",
    };
    ConfigProblem {
        at: path.display().to_string(),
        key: String::new(),
        wrong: format!("cannot be read: {error}"),
        right: right.to_owned(),
        code: ErrorCode::Unreadable,
    }
}
