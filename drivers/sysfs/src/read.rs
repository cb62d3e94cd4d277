//! Reads single attributes. Only this module opens files.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// The maximum size of an attribute in bytes. The kernel's limit is a page; a node's meminfo is much smaller than this.
const LONGEST: u64 = 64 * 1024;

/// Why the device tree could not be read.
#[derive(Debug, thiserror::Error)]
pub enum SysfsError {
    /// The kernel refused to give the file or the directory.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        source: io::Error,
    },
    /// The kernel did not list the addresses of this host's interfaces.
    #[error("cannot read the addresses of this host's network interfaces")]
    Addresses {
        #[source]
        source: io::Error,
    },
    /// The file holds something else than the kernel writes there.
    #[error("{} holds {content:?}, expected {expected}", path.display())]
    Malformed {
        path: PathBuf,
        /// Its content, at most 80 characters.
        content: String,
        /// The expected content, as text.
        expected: &'static str,
    },
}

impl SysfsError {
    pub(crate) fn malformed(path: &Path, content: &str, expected: &'static str) -> Self {
        Self::Malformed {
            path: path.to_path_buf(),
            content: content.chars().take(80).collect(),
            expected,
        }
    }
}

/// Whether the error means that the file does not exist, possibly because its device just disappeared.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.kind() == io::ErrorKind::NotADirectory
        || error.raw_os_error() == Some(nix::libc::ENODEV)
}

/// The maximum size in bytes of a list of the kernel, such as mounts and routes.
const LONGEST_LIST: u64 = 16 * 1024 * 1024;

/// The attribute's text without surrounding white space; `None` if it does not exist.
pub(crate) fn text(path: &Path) -> Result<Option<String>, SysfsError> {
    text_up_to(path, LONGEST, "at most 64 KiB")
}

/// The same for a longer list.
pub(crate) fn long_text(path: &Path) -> Result<Option<String>, SysfsError> {
    text_up_to(path, LONGEST_LIST, "at most 16 MiB")
}

fn text_up_to(
    path: &Path,
    most: u64,
    expected: &'static str,
) -> Result<Option<String>, SysfsError> {
    let unreadable = |source| SysfsError::Unreadable {
        path: path.to_path_buf(),
        source,
    };
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    match read {
        Ok(length) if length as u64 > most => {
            return Err(SysfsError::malformed(path, "", expected));
        }
        Ok(_) => {}
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Some(text.trim().to_owned())),
        Err(_) => Err(SysfsError::malformed(
            path,
            &String::from_utf8_lossy(&bytes),
            "text in UTF-8",
        )),
    }
}

/// The attribute parsed by `parse`, which returns `None` for content that is not `expected`.
pub(crate) fn value<T>(
    path: &Path,
    expected: &'static str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, SysfsError> {
    let Some(text) = text(path)? else {
        return Ok(None);
    };
    match parse(&text) {
        Some(value) => Ok(Some(value)),
        None => Err(SysfsError::malformed(path, &text, expected)),
    }
}

/// The names in a directory, sorted; empty if it does not exist. Names that are not UTF-8, which the kernel
/// never creates, are omitted.
pub(crate) fn names(directory: &Path) -> Result<Vec<String>, SysfsError> {
    let unreadable = |source| SysfsError::Unreadable {
        path: directory.to_path_buf(),
        source,
    };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(unreadable)?.file_name();
        names.extend(name.into_string().ok());
    }
    names.sort_unstable();
    Ok(names)
}

/// The last component of a link's target, which is the name of a driver, group or parent. `None` if there is no link.
pub(crate) fn link_name(link: &Path) -> Result<Option<String>, SysfsError> {
    match fs::read_link(link) {
        Ok(target) => Ok(target
            .file_name()
            .and_then(|name| name.to_str())
            .map(str::to_owned)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(SysfsError::malformed(
            link,
            "something that is no link",
            "a symbolic link",
        )),
        Err(source) => Err(SysfsError::Unreadable {
            path: link.to_path_buf(),
            source,
        }),
    }
}

/// The directory with links resolved; `None` if it does not exist.
pub(crate) fn resolved(path: &Path) -> Result<Option<PathBuf>, SysfsError> {
    match fs::canonicalize(path) {
        Ok(path) => Ok(Some(path)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(source) => Err(SysfsError::Unreadable {
            path: path.to_path_buf(),
            source,
        }),
    }
}

/// A number in decimal, nothing else.
pub(crate) fn decimal<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// A number in hexadecimal with `0x` in front, at most `digits` digits.
pub(crate) fn hexadecimal(text: &str, digits: usize) -> Option<u32> {
    let text = text.strip_prefix("0x")?;
    let plain =
        (1..=digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain {
        u32::from_str_radix(text, 16).ok()
    } else {
        None
    }
}
