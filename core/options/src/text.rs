//! Kinds of texts and lists: their checks, and their descriptions in the reference and in errors. A kind that only one
//! crate needs is declared there.

use serde_json::Value;

use crate::OptionKind::{self, Tables, Text, Texts};

/// A kind of texts.
#[derive(Debug, Clone, Copy)]
pub struct TextKind {
    /// Its name in the reference.
    pub documented: &'static str,
    /// What would be right, as the end of a sentence.
    pub write: &'static str,
    /// Whether the value must never be shown.
    pub is_secret: bool,
    /// Checks a text that is not empty and has no control characters.
    pub check: fn(&str) -> Result<(), WrongText>,
    /// The file that a text names, if rights depend on who can change or read it.
    pub file: fn(&str) -> Option<(FileRole, &str)>,
}

/// Why it matters who can change or read the file that an option names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileRole {
    /// A program that is executed.
    Program,
    /// A file, or a folder of files, that decides rights: rules, users, authorities, images.
    Rights,
    /// A file with a password or a key.
    Secret,
}

/// Why a text is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongText {
    pub wrong: String,
    /// What would be right, if that differs from the kind's own description.
    pub right: Option<String>,
}

impl From<String> for WrongText {
    fn from(wrong: String) -> Self {
        Self { wrong, right: None }
    }
}

impl TextKind {
    /// A kind of texts that are not secret.
    #[must_use]
    pub const fn new(
        documented: &'static str,
        write: &'static str,
        check: fn(&str) -> Result<(), WrongText>,
    ) -> Self {
        Self {
            documented,
            write,
            is_secret: false,
            check,
            file: |_| None,
        }
    }
}

/// A kind of lists whose elements are tables, or JSON texts of tables.
#[derive(Debug, Clone, Copy)]
pub struct TablesKind {
    /// What would be right, as the end of a sentence.
    pub write: &'static str,
    pub check: fn(&[Value]) -> Result<(), WrongElement>,
}

/// Why a list is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongElement {
    /// The index of the wrong element, if one element is wrong.
    pub element: Option<usize>,
    pub wrong: String,
}

/// The most bytes of a unix socket's path (`sun_path`, unix(7)).
const LONGEST_SOCKET_PATH: usize = 107;

const fn any(_: &str) -> Result<(), WrongText> {
    Ok(())
}

/// Any text that is not empty.
pub const TEXT: OptionKind = Text(&TextKind::new("text", "write a text in quotes", any));

/// A list of texts.
pub const TEXTS: OptionKind = Texts(&TextKind::new(
    "list of texts",
    "write texts such as [\"one\", \"other\"]",
    any,
));

/// A text that is never shown.
pub const SECRET: OptionKind = Text(&TextKind {
    is_secret: true,
    ..TextKind::new(
        "secret text",
        "write the secret in quotes, on one line",
        any,
    )
});

/// A list of tables.
pub const TABLES: OptionKind = Tables(&TablesKind {
    write: "write tables such as [{ key = \"value\" }]",
    check: |_| Ok(()),
});

/// A host name as Nova's `host`.
pub const HOST_NAME: OptionKind = Text(&TextKind::new(
    "host name",
    "write letters, digits, '.', '-' and '_', at most 255",
    |text| match is_host_name(text) {
        true => Ok(()),
        false => Err(format!("{text:?} is not a host name").into()),
    },
));

#[must_use]
pub fn is_host_name(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_');
    text.len() <= 255 && text.chars().all(plain) && !text.starts_with(['.', '-'])
}

pub const IP_ADDRESS: OptionKind = Text(&TextKind::new(
    "IP address",
    "write an address such as \"192.0.2.17\" or \"2001:db8::17\"",
    |text| match text.parse::<std::net::IpAddr>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("{text:?} is not an IP address").into()),
    },
));

pub const CPU_SET: OptionKind = Text(&TextKind::new(
    "CPU set such as 0-3,^2,8",
    "write numbers, ranges and exclusions such as \"0-3,^2,8\"",
    |text| match text.parse::<berth_model::CpuSet>() {
        Ok(set) if set.is_empty() => Err(format!("{text:?} leaves no CPU").into()),
        Ok(_) => Ok(()),
        Err(error) => Err(WrongText {
            wrong: error.to_string(),
            right: Some("an example is \"0-3,^2,8\"".to_owned()),
        }),
    },
));

fn check_path(text: &str) -> Result<(), WrongText> {
    match text.starts_with('/') {
        true => Ok(()),
        false => Err(format!("{text:?} is not absolute").into()),
    }
}

const ABSOLUTE: TextKind = TextKind::new(
    "absolute path",
    "write a path that begins with /",
    check_path,
);

/// An absolute path.
pub const PATH: OptionKind = Text(&ABSOLUTE);

/// The absolute path of a program that is executed.
pub const PROGRAM: OptionKind = Text(&TextKind {
    file: |path| Some((FileRole::Program, path)),
    ..ABSOLUTE
});

/// The absolute path of a file that decides rights.
pub const RIGHTS_FILE: OptionKind = Text(&TextKind {
    file: |path| Some((FileRole::Rights, path)),
    ..ABSOLUTE
});

/// The absolute path of a file with a password or a key.
pub const SECRET_FILE: OptionKind = Text(&TextKind {
    file: |path| Some((FileRole::Secret, path)),
    ..ABSOLUTE
});

/// A list of absolute paths.
pub const PATHS: OptionKind = Texts(&TextKind::new(
    "list of absolute paths",
    "write paths such as [\"/srv/images\"]",
    check_path,
));

/// The absolute path of a unix socket.
pub const SOCKET_PATH: OptionKind = Text(&TextKind::new(
    "absolute path",
    "write a path that begins with / and has at most 107 bytes",
    |text| match text.len() > LONGEST_SOCKET_PATH {
        true => Err(format!("{} bytes are too many for a socket", text.len()).into()),
        false => check_path(text),
    },
));

/// A URL of HTTP.
pub const URL: OptionKind = Text(&TextKind::new(
    "URL (http, https)",
    "write a URL that begins with http:// or https://",
    |text| check_url(text, &["http", "https"]),
));

/// Checks scheme and host, and that a path can be appended. Errors do not repeat user, password and query, which may be
/// secret.
pub fn check_url(text: &str, schemes: &[&str]) -> Result<(), WrongText> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err("this is not a URL".to_owned().into());
    };
    if !schemes.contains(&scheme) {
        return Err(format!("the scheme {scheme:?} is not accepted here").into());
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let wrong = if authority.contains('@') {
        "user and password do not belong in this URL"
    } else if authority.is_empty() || authority.contains(char::is_whitespace) {
        "the URL names no host"
    } else if rest.contains('?') {
        "paths are appended to this URL, so it can have no query (?)"
    } else if rest.contains('#') {
        "paths are appended to this URL, so it can have no fragment (#)"
    } else {
        return Ok(());
    };
    Err(wrong.to_owned().into())
}

fn address(text: &str, write: &'static str) -> Result<std::net::SocketAddr, WrongText> {
    text.parse().map_err(|_| WrongText {
        wrong: format!("{text:?} is not an address and port"),
        right: Some(write.to_owned()),
    })
}

/// The text of a `listen` option that opens no listener.
pub const NO_LISTENER: &str = "none";

const WRITE_LISTEN: &str =
    "write address and port such as \"127.0.0.1:8778\" or \"[::1]:8778\", or \"none\"";
const WRITE_LOOPBACK: &str =
    "write a loopback address and port such as \"127.0.0.1:9177\", or \"none\"";

/// Address and port to listen on, or `none`.
pub const LISTEN: OptionKind = Text(&TextKind::new(
    "address:port, or `none`",
    WRITE_LISTEN,
    |text| match text {
        NO_LISTENER => Ok(()),
        _ => address(text, WRITE_LISTEN).map(drop),
    },
));

/// Address and port to listen on, on the loopback interface only, or `none`.
pub const LOOPBACK_LISTEN: OptionKind = Text(&TextKind::new(
    "loopback address:port, or `none`",
    WRITE_LOOPBACK,
    |text| match text {
        NO_LISTENER => Ok(()),
        _ => {
            let address = address(text, WRITE_LOOPBACK)?;
            match address.ip().is_loopback() {
                true => Ok(()),
                false => Err(format!("{address} is not on the loopback interface").into()),
            }
        }
    },
));

/// A list of names: letters, digits, `_`, `-`, `.`, `:`.
pub const NAMES: OptionKind = Texts(&TextKind::new(
    "list of names",
    "write names such as [\"Haswell-noTSX\"]",
    |text| {
        let allowed = |letter: u8| letter.is_ascii_alphanumeric() || b"_-.:".contains(&letter);
        match text.len() <= 64 && text.bytes().all(allowed) {
            true => Ok(()),
            false => Err(format!("{text:?} is not a valid name").into()),
        }
    },
));

/// A list of PCI addresses.
pub const PCI_ADDRESSES: OptionKind = Texts(&TextKind::new(
    "list of PCI addresses",
    "write addresses such as [\"0000:84:00.0\"]",
    |text| match text.parse::<berth_model::PciAddress>() {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("{text:?} is not a PCI address").into()),
    },
));
