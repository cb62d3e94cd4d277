//! What kinds of value an option can have: their check, their text from the environment, their name in the docs.

use std::net::SocketAddr;

use berth_model::{PciAddress, ResourceClass};
use berth_store::sql::Location;
use berth_sysfs::AllowList;
use berth_virt::CpuSet;
use config::{Value, ValueKind};

use super::view::json;
use crate::failure::ErrorCode;

/// The kind of an option's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Any text but an empty one.
    Text,
    /// A text that is never printed.
    Secret,
    /// A host name as Nova's `host`: letters, digits, `.`, `-`, `_`, at most 255.
    HostName,
    /// An absolute path.
    Path,
    /// A URL with one of these schemes.
    Url(&'static [&'static str]),
    /// A libvirt connection URI of a local hypervisor.
    LibvirtUri,
    /// A database URL, which may hold a password.
    Database,
    /// `true` or `false`.
    Flag,
    /// A whole number in this range.
    Integer(i64, i64),
    /// A decimal number over 0, at most this.
    Ratio(f64),
    /// A decimal number of seconds in this range.
    Seconds(f64, f64),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `compute_driver`: one of these words, or `exec:` and the absolute path of a program.
    Driver(&'static [&'static str]),
    /// A list of these words.
    Choices(&'static [&'static str]),
    /// A CPU set such as `0-3,^2,8`.
    CpuSet,
    /// A list of mediated device type names.
    MdevTypes,
    /// A list of PCI addresses.
    PciAddresses,
    /// A list of names: letters, digits, `_`, `-`, `.`, `:`.
    Names,
    /// A list of absolute paths.
    Paths,
    /// Nova's `device_spec`: a list of tables, or of JSON texts.
    DeviceSpec,
    /// `VGPU` or a custom resource class.
    MdevClass,
    /// An absolute path of a unix socket, at most 107 bytes (`sun_path`, unix(7)).
    SocketPath,
    /// A list of agents: `NODE=https://HOST:PORT`.
    Agents,
    /// Address and port to listen on.
    Listen,
    /// The same, on the loopback interface only.
    LoopbackListen,
}

/// The most bytes of a unix socket's path (`sun_path`, unix(7)).
const LONGEST_SOCKET_PATH: usize = 107;

/// Why a value is refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Wrong {
    pub wrong: String,
    pub right: String,
    pub code: ErrorCode,
    /// Index of the list element that is wrong, where one is.
    pub element: Option<usize>,
}

impl Wrong {
    fn value(wrong: impl Into<String>, right: impl Into<String>) -> Self {
        Wrong {
            wrong: wrong.into(),
            right: right.into(),
            code: ErrorCode::BadValue,
            element: None,
        }
    }

    fn kind(wrong: impl Into<String>, right: impl Into<String>) -> Self {
        Wrong {
            wrong: wrong.into(),
            right: right.into(),
            code: ErrorCode::WrongType,
            element: None,
        }
    }
}

impl Kind {
    /// Checks a value and returns the form that is kept: numbers of a ratio become decimal numbers.
    pub(super) fn check(self, value: &ValueKind) -> Result<ValueKind, Wrong> {
        match self {
            Kind::Flag => self.check_flag(value),
            Kind::Integer(low, high) => self.check_integer(value, low, high),
            Kind::Ratio(high) => self.check_decimal(value, |number| number > 0.0 && number <= high),
            Kind::Seconds(low, high) => {
                self.check_decimal(value, |number| number >= low && number <= high)
            }
            Kind::Choices(_)
            | Kind::MdevTypes
            | Kind::PciAddresses
            | Kind::Names
            | Kind::Paths
            | Kind::Agents => self.check_list(value),
            Kind::DeviceSpec => self.check_device_spec(value),
            _ => match value {
                ValueKind::String(text) => self.check_text(text).map(|()| value.clone()),
                other => Err(Wrong::kind(
                    format!("a text is wanted, not {}", self.described(other)),
                    self.write(),
                )),
            },
        }
    }

    fn check_flag(self, value: &ValueKind) -> Result<ValueKind, Wrong> {
        match value {
            ValueKind::Boolean(_) => Ok(value.clone()),
            other => Err(Wrong::kind(
                format!("true or false is wanted, not {}", self.described(other)),
                self.write(),
            )),
        }
    }

    fn check_integer(self, value: &ValueKind, low: i64, high: i64) -> Result<ValueKind, Wrong> {
        match value {
            ValueKind::I64(number) if (low..=high).contains(number) => Ok(value.clone()),
            ValueKind::I64(number) => Err(Wrong::value(
                format!("{number} is out of range"),
                self.write(),
            )),
            other => Err(Wrong::kind(
                format!("a whole number is wanted, not {}", self.described(other)),
                self.write(),
            )),
        }
    }

    fn check_decimal(
        self,
        value: &ValueKind,
        allowed: impl Fn(f64) -> bool,
    ) -> Result<ValueKind, Wrong> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "ratios and seconds are small; the range check refuses the rest"
        )]
        let number = match value {
            ValueKind::I64(number) => *number as f64,
            ValueKind::Float(number) => *number,
            other => {
                return Err(Wrong::kind(
                    format!("a number is wanted, not {}", self.described(other)),
                    self.write(),
                ));
            }
        };
        if allowed(number) {
            Ok(ValueKind::Float(number))
        } else {
            Err(Wrong::value(
                format!("{number} is out of range"),
                self.write(),
            ))
        }
    }

    fn check_list(self, value: &ValueKind) -> Result<ValueKind, Wrong> {
        let elements = match value {
            ValueKind::Array(elements) => elements,
            ValueKind::String(text) => {
                return Err(Wrong::kind(
                    "a list is wanted, not a text",
                    format!("write [{text:?}]"),
                ));
            }
            other => {
                return Err(Wrong::kind(
                    format!("a list is wanted, not {}", self.described(other)),
                    self.write(),
                ));
            }
        };
        let mut seen: Vec<&str> = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let at = |wrong: Wrong| Wrong {
                element: Some(index),
                ..wrong
            };
            let ValueKind::String(text) = &element.kind else {
                let wrong = format!(
                    "a list of texts is wanted, this element is {}",
                    self.described(&element.kind)
                );
                return Err(at(Wrong::kind(wrong, self.write())));
            };
            self.check_text(text).map_err(at)?;
            if seen.contains(&text.as_str()) {
                return Err(at(Wrong::value(
                    format!("{text:?} stands in the list twice"),
                    "write it once",
                )));
            }
            seen.push(text);
        }
        Ok(value.clone())
    }

    fn check_device_spec(self, value: &ValueKind) -> Result<ValueKind, Wrong> {
        let ValueKind::Array(elements) = value else {
            let wrong = format!("a list is wanted, not {}", self.described(value));
            return Err(Wrong::kind(wrong, self.write()));
        };
        let entries: Vec<_> = elements.iter().map(json).collect();
        AllowList::read(&entries).map_err(|error| Wrong {
            element: error.entry.checked_sub(1),
            ..Wrong::value(error.to_string(), self.write())
        })?;
        Ok(value.clone())
    }

    /// Checks a text, or one element of a list of texts.
    fn check_text(self, text: &str) -> Result<(), Wrong> {
        let refuse = |wrong: String| Err(Wrong::value(wrong, self.write()));
        if text.trim().is_empty() {
            return refuse("an empty text is no value".to_owned());
        }
        if text.contains(|letter: char| letter.is_control()) {
            return refuse("the text has control characters".to_owned());
        }
        match self {
            Kind::HostName if !is_host_name(text) => refuse(format!("{text:?} is no host name")),
            Kind::SocketPath if text.len() > LONGEST_SOCKET_PATH => {
                refuse(format!("{} bytes are too many for a socket", text.len()))
            }
            Kind::Path | Kind::Paths | Kind::SocketPath if !text.starts_with('/') => {
                refuse(format!("{text:?} is not absolute"))
            }
            Kind::Url(schemes) => check_url(text, schemes).or_else(refuse),
            Kind::LibvirtUri if !is_libvirt_uri(text) => {
                refuse(format!("{text:?} is no local libvirt connection URI"))
            }
            Kind::Database if !is_database(text) => refuse("this is no database URL".to_owned()),
            Kind::Driver(_) if text.starts_with("exec:") => match text.starts_with("exec:/") {
                true => Ok(()),
                false => refuse(format!("{text:?} names no program by an absolute path")),
            },
            Kind::Choice(words) | Kind::Choices(words) | Kind::Driver(words)
                if !words.contains(&text) =>
            {
                let guess = super::problem::nearest(text, words.iter().copied());
                let right = guess.map_or_else(
                    || self.write(),
                    |word| format!("did you mean {word:?}? {}", self.write()),
                );
                Err(Wrong::value(
                    format!("{text:?} is not one of the words accepted"),
                    right,
                ))
            }
            Kind::CpuSet => match text.parse::<CpuSet>() {
                Ok(set) if set.is_empty() => refuse(format!("{text:?} leaves no CPU")),
                Ok(_) => Ok(()),
                Err(error) => Err(Wrong::value(
                    error.to_string(),
                    "an example is \"0-3,^2,8\"",
                )),
            },
            Kind::MdevTypes if !is_mdev_type(text) => {
                refuse(format!("{text:?} is no mediated device type"))
            }
            Kind::PciAddresses if text.parse::<PciAddress>().is_err() => {
                refuse(format!("{text:?} is no PCI address"))
            }
            Kind::Agents => check_agent(text).or_else(refuse),
            Kind::Names if !is_name(text) => refuse(format!("{text:?} is no such name")),
            Kind::MdevClass if !is_mdev_class(text) => refuse(format!("{text:?} is not accepted")),
            Kind::Listen | Kind::LoopbackListen => self.check_listen(text),
            _ => Ok(()),
        }
    }

    fn check_listen(self, text: &str) -> Result<(), Wrong> {
        match text.parse::<SocketAddr>() {
            Err(_) => Err(Wrong::value(
                format!("{text:?} is no address and port"),
                self.write(),
            )),
            Ok(address) if self == Kind::LoopbackListen && !address.ip().is_loopback() => {
                Err(Wrong::value(
                    format!("{address} is not on the loopback interface"),
                    self.write(),
                ))
            }
            Ok(_) => Ok(()),
        }
    }

    /// A refused value as it may be shown: the value of a secret never is.
    fn described(self, value: &ValueKind) -> String {
        let what = match value {
            ValueKind::Nil => "nothing",
            ValueKind::Boolean(_) => "true or false",
            ValueKind::I64(_) | ValueKind::I128(_) | ValueKind::U64(_) | ValueKind::U128(_) => {
                "a whole number"
            }
            ValueKind::Float(_) => "a decimal number",
            ValueKind::String(_) => "a text",
            ValueKind::Table(_) => "a table",
            ValueKind::Array(_) => "a list",
        };
        match value {
            _ if self.is_secret() => what.to_owned(),
            ValueKind::String(text) => format!("the text {text:?}"),
            ValueKind::I64(number) => format!("the number {number}"),
            ValueKind::Float(number) => format!("the number {number}"),
            ValueKind::Boolean(flag) => format!("{flag}"),
            _ => what.to_owned(),
        }
    }

    /// What would be right, as the end of a sentence.
    pub(super) fn write(self) -> String {
        match self {
            Kind::Text => "write a text in quotes".into(),
            Kind::Secret => "write the secret in quotes, on one line".into(),
            Kind::HostName => "write letters, digits, '.', '-' and '_', at most 255".into(),
            Kind::Path => "write a path that begins with /".into(),
            Kind::Paths => "write paths such as [\"/srv/images\"]".into(),
            Kind::SocketPath => {
                format!(
                    "write a path that begins with / and has at most {LONGEST_SOCKET_PATH} bytes"
                )
            }
            Kind::Url(schemes) => format!("write a URL that begins with {}", list(schemes, "://")),
            Kind::LibvirtUri => "write a URI such as \"qemu:///system\"".into(),
            Kind::Database => "write sqlite:PATH with an absolute path".into(),
            Kind::Flag => "write true or false, without quotes".into(),
            Kind::Integer(low, high) if high == i64::MAX => {
                format!("write a whole number from {low} on")
            }
            Kind::Integer(low, high) => format!("write a whole number from {low} to {high}"),
            Kind::Ratio(high) => format!("write a number over 0, at most {high}"),
            Kind::Seconds(low, high) => format!("write a number of seconds from {low} to {high}"),
            Kind::Choice(words) => format!("write one of {}", words.join(", ")),
            Kind::Driver(words) => {
                format!("write one of {}, or exec:/PATH/OF/A/PROGRAM", words.join(", "))
            }
            Kind::Choices(words) => format!("write a list of: {}", words.join(", ")),
            Kind::CpuSet => "write numbers, ranges and exclusions such as \"0-3,^2,8\"".into(),
            Kind::MdevTypes => {
                "write names as in mdev_supported_types, such as [\"nvidia-35\"]".into()
            }
            Kind::PciAddresses => "write addresses such as [\"0000:84:00.0\"]".into(),
            Kind::Agents => "write agents such as [\"compute2=https://192.0.2.11:9178\"]".into(),
            Kind::Names => "write names such as [\"Haswell-noTSX\"]".into(),
            Kind::DeviceSpec => {
                "write tables such as [{ address = \"0000:81:00.0\" }] or [{ vendor_id = \"10de\", product_id = \"1eb8\" }]"
                    .into()
            }
            Kind::MdevClass => {
                "write \"VGPU\" or a custom class such as \"CUSTOM_GPU_SLICE\"".into()
            }
            Kind::Listen => {
                "write address and port such as \"127.0.0.1:8778\" or \"[::]:8778\"".into()
            }
            Kind::LoopbackListen => {
                "write a loopback address and port such as \"127.0.0.1:9177\"".into()
            }
        }
    }

    /// The kind in the option reference.
    pub(super) fn documented(self) -> String {
        match self {
            Kind::Text => "text".into(),
            Kind::Secret => "secret text".into(),
            Kind::HostName => "host name".into(),
            Kind::Path | Kind::SocketPath => "absolute path".into(),
            Kind::Url(schemes) => format!("URL ({})", schemes.join(", ")),
            Kind::LibvirtUri => "local libvirt URI".into(),
            Kind::Database => "database URL (sqlite:PATH), secret".into(),
            Kind::Flag => "true or false".into(),
            Kind::Integer(low, high) if high == i64::MAX => format!("whole number, {low} or more"),
            Kind::Integer(low, high) => format!("whole number, {low} to {high}"),
            Kind::Ratio(high) => format!("number over 0, at most {high}"),
            Kind::Seconds(low, high) => format!("seconds, {low} to {high}"),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Driver(words) => format!("one of {}, or `exec:` and a path", words.join(", ")),
            Kind::Choices(words) => format!("list of: {}", words.join(", ")),
            Kind::CpuSet => "CPU set such as 0-3,^2,8".into(),
            Kind::MdevTypes => "list of mediated device types".into(),
            Kind::PciAddresses => "list of PCI addresses".into(),
            Kind::Names => "list of names".into(),
            Kind::Agents => "list of NODE=https://HOST:PORT".into(),
            Kind::Paths => "list of absolute paths".into(),
            Kind::DeviceSpec => "list of tables, or of JSON texts".into(),
            Kind::MdevClass => "VGPU or CUSTOM_…".into(),
            Kind::Listen => "address:port".into(),
            Kind::LoopbackListen => "loopback address:port".into(),
        }
    }

    /// Whether the value must never be shown.
    #[must_use]
    pub fn is_secret(self) -> bool {
        matches!(self, Kind::Secret | Kind::Database)
    }

    /// Reads the text of an environment variable: lists are separated by commas.
    pub(super) fn of_variable(self, text: &str, origin: &str) -> ValueKind {
        let trimmed = text.trim();
        let as_text = || ValueKind::String(text.to_owned());
        match self {
            Kind::Flag => match trimmed.to_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => ValueKind::Boolean(true),
                "false" | "no" | "off" | "0" => ValueKind::Boolean(false),
                _ => as_text(),
            },
            Kind::Integer(..) => trimmed.parse().map_or_else(|_| as_text(), ValueKind::I64),
            Kind::Ratio(_) | Kind::Seconds(..) => {
                trimmed.parse().map_or_else(|_| as_text(), ValueKind::Float)
            }
            // One text may hold a whole list, commas and all.
            Kind::DeviceSpec => {
                let text = ValueKind::String(trimmed.to_owned());
                ValueKind::Array(vec![Value::new(Some(&origin.to_owned()), text)])
            }
            Kind::Choices(_)
            | Kind::MdevTypes
            | Kind::PciAddresses
            | Kind::Names
            | Kind::Paths
            | Kind::Agents => {
                let words = trimmed
                    .split(',')
                    .map(str::trim)
                    .filter(|word| !word.is_empty());
                let element = |word: &str| {
                    Value::new(Some(&origin.to_owned()), ValueKind::String(word.to_owned()))
                };
                ValueKind::Array(words.map(element).collect())
            }
            _ => as_text(),
        }
    }
}

fn list(words: &[&str], suffix: &str) -> String {
    words
        .iter()
        .map(|word| format!("{word}{suffix}"))
        .collect::<Vec<_>>()
        .join(" or ")
}

fn is_host_name(text: &str) -> bool {
    text.len() <= 255
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_'))
        && !text.starts_with(['.', '-'])
}

/// Mediated device types are directory names such as `nvidia-35` or `i915-GVTg_V5_4`.
pub(super) fn is_mdev_type(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_'))
}

fn is_name(text: &str) -> bool {
    let allowed = |letter: u8| letter.is_ascii_alphanumeric() || b"_-.:".contains(&letter);
    text.len() <= 64 && text.bytes().all(allowed)
}

fn is_mdev_class(text: &str) -> bool {
    text == "VGPU" || (text.starts_with("CUSTOM_") && text.parse::<ResourceClass>().is_ok())
}

/// Remote hypervisors are refused: devices are read from this host's own sysfs.
fn is_libvirt_uri(text: &str) -> bool {
    let Some((scheme, path)) = text.split_once("://") else {
        return false;
    };
    matches!(
        scheme,
        "qemu" | "qemu+unix" | "test" | "test+unix" | "ch" | "ch+unix"
    ) && path.starts_with('/')
}

fn is_database(text: &str) -> bool {
    let absolute = text
        .strip_prefix("sqlite:")
        .is_some_and(|path| path.starts_with('/') && path.len() > 1);
    absolute && text.parse::<Location>().is_ok()
}

/// A node's name and the root of its agent's API.
fn check_agent(text: &str) -> Result<(), String> {
    let Some((node, url)) = text.split_once('=') else {
        return Err(format!("{text:?} names no node before a ="));
    };
    if node.is_empty() || !is_host_name(node) {
        return Err(format!("{node:?} is no node's name"));
    }
    check_url(url, &["https"])?;
    match url.trim_start_matches("https://").contains('/') {
        true => Err(format!("{url:?} has a path, and an agent's API has none")),
        false => Ok(()),
    }
}

/// Checks scheme and host, and that a path can be appended. What may be a secret (user, password, query) is not repeated.
fn check_url(text: &str, schemes: &[&str]) -> Result<(), String> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err("this is no URL".into());
    };
    if !schemes.contains(&scheme) {
        return Err(format!("the scheme {scheme:?} is not accepted here"));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("user and password do not belong in this URL".into());
    }
    if authority.is_empty() || authority.contains(char::is_whitespace) {
        return Err("the URL names no host".into());
    }
    if rest.contains('?') {
        return Err("paths are appended to this URL, so it can have no query (?)".into());
    }
    if rest.contains('#') {
        return Err("paths are appended to this URL, so it can have no fragment (#)".into());
    }
    Ok(())
}
