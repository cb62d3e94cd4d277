//! What values a property may have, and how they are spelled.

use serde_json::Value;

use crate::numbers;
use crate::version::VersionPredicate;

/// The type of a property's value.
#[derive(Debug, Clone, Copy)]
pub(super) enum PropertyKind {
    Text,
    /// Yes or no; other values count as no.
    Flag,
    Int,
    /// One of these, letter by letter.
    OneOf(&'static [&'static str]),
    /// One of these in any case, or an old name of one.
    Named(
        &'static [&'static str],
        &'static [(&'static str, &'static str)],
    ),
    Architecture,
    /// Versions of a hypervisor.
    Versions,
    /// A list in JSON.
    Records,
}

impl PropertyKind {
    /// In its one spelling.
    pub(super) fn canonical(self, value: &str) -> Result<String, String> {
        match self {
            Self::Text => Ok(value.to_owned()),
            Self::Flag => Ok(if numbers::is_true(value) {
                "True"
            } else {
                "False"
            }
            .to_owned()),
            Self::Int => numbers::int(value)
                .map(|it| it.to_string())
                .ok_or_else(|| "a whole number".to_owned()),
            Self::OneOf(values) => one_of(values, value),
            Self::Named(values, old) => {
                let value = value.to_lowercase();
                let new = old.iter().find(|(it, _)| *it == value);
                one_of(values, new.map_or(value.as_str(), |(_, new)| new))
            }
            Self::Architecture => architecture(value),
            Self::Versions => VersionPredicate::new(value)
                .map(|_| value.to_owned())
                .map_err(|error| format!("versions such as `>=2.6, <3` ({error})")),
            Self::Records => match serde_json::from_str(value) {
                Ok(Value::Array(_)) => Ok(value.to_owned()),
                _ => Err("a list in JSON".to_owned()),
            },
        }
    }

    /// Whether a normalised value is empty.
    pub(super) fn is_empty(self, value: &str) -> bool {
        match self {
            Self::Flag => value == "False",
            Self::Int => value == "0",
            Self::Records => value.trim() == "[]",
            _ => value.is_empty(),
        }
    }
}

fn one_of(values: &[&str], value: &str) -> Result<String, String> {
    match values.contains(&value) {
        true => Ok(value.to_owned()),
        false => Err(format!("one of {}", values.join(", "))),
    }
}

/// The one name of an architecture, which has several.
pub fn architecture(name: &str) -> Result<String, String> {
    let name = name.to_lowercase();
    let name = match name.as_str() {
        "i386" | "i486" | "i586" | "x86_32" | "x86_32p" => "i686",
        "amd64" => "x86_64",
        other => other,
    };
    match ARCHITECTURES.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(format!("an architecture ({})", ARCHITECTURES.join(", "))),
    }
}

/// As libvirt names them.
const ARCHITECTURES: &[&str] = &[
    "alpha",
    "armv6",
    "armv7l",
    "armv7b",
    "aarch64",
    "cris",
    "i686",
    "ia64",
    "lm32",
    "m68k",
    "microblaze",
    "microblazeel",
    "mips",
    "mipsel",
    "mips64",
    "mips64el",
    "openrisc",
    "parisc",
    "parisc64",
    "ppc",
    "ppcle",
    "ppc64",
    "ppc64le",
    "ppcemb",
    "s390",
    "s390x",
    "sh4",
    "sh4eb",
    "sparc",
    "sparc64",
    "unicore32",
    "x86_64",
    "xtensa",
    "xtensaeb",
];
