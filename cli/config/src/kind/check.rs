//! Whether a value is of its kind, and allowed.

use std::net::SocketAddr;

use berth_http::Prefix;
use berth_model::{PciAddress, ResourceClass};
use berth_output::ErrorCode;
use berth_scheduler::request::PciAlias;
use berth_store::sql::{Location, OpenError};
use berth_sysfs::AllowList;
use berth_virt::CpuSet;
use config::ValueKind;

use super::super::json_value::json;
use super::super::problem::nearest;
use super::super::sections::catalog_entry;
use super::{LONGEST_SOCKET_PATH, OptionKind, ValueError};

impl ValueError {
    fn value(wrong: impl Into<String>, right: impl Into<String>) -> Self {
        ValueError {
            wrong: wrong.into(),
            right: right.into(),
            code: ErrorCode::BadValue,
            element: None,
        }
    }

    fn kind(wrong: impl Into<String>, right: impl Into<String>) -> Self {
        ValueError {
            wrong: wrong.into(),
            right: right.into(),
            code: ErrorCode::WrongType,
            element: None,
        }
    }
}

impl OptionKind {
    /// Checks a value and returns the form that is kept: numbers of a ratio become decimal numbers.
    pub(crate) fn check(self, value: &ValueKind) -> Result<ValueKind, ValueError> {
        match self {
            OptionKind::Flag => self.check_flag(value),
            OptionKind::Integer(low, high) => self.check_integer(value, low, high),
            OptionKind::Ratio(high) => {
                self.check_decimal(value, |number| number > 0.0 && number <= high)
            }
            OptionKind::Number(low, high) | OptionKind::Seconds(low, high) => {
                self.check_decimal(value, |number| number >= low && number <= high)
            }
            OptionKind::Choices(_)
            | OptionKind::MdevTypes
            | OptionKind::PciAddresses
            | OptionKind::Names
            | OptionKind::Texts
            | OptionKind::Paths
            | OptionKind::Origins
            | OptionKind::Endpoints
            | OptionKind::Agents => self.check_list(value),
            OptionKind::DeviceSpec => self.check_device_spec(value),
            OptionKind::PciAlias => self.check_pci_alias(value),
            _ => match value {
                ValueKind::String(text) => self.check_text(text).map(|()| value.clone()),
                other => Err(ValueError::kind(
                    format!("a text is wanted, not {}", self.described(other)),
                    self.write(),
                )),
            },
        }
    }

    fn check_flag(self, value: &ValueKind) -> Result<ValueKind, ValueError> {
        match value {
            ValueKind::Boolean(_) => Ok(value.clone()),
            other => Err(ValueError::kind(
                format!("true or false is wanted, not {}", self.described(other)),
                self.write(),
            )),
        }
    }

    fn check_integer(
        self,
        value: &ValueKind,
        low: i64,
        high: i64,
    ) -> Result<ValueKind, ValueError> {
        match value {
            ValueKind::I64(number) if (low..=high).contains(number) => Ok(value.clone()),
            ValueKind::I64(number) => Err(ValueError::value(
                format!("{number} is out of range"),
                self.write(),
            )),
            other => Err(ValueError::kind(
                format!("a whole number is wanted, not {}", self.described(other)),
                self.write(),
            )),
        }
    }

    fn check_decimal(
        self,
        value: &ValueKind,
        allowed: impl Fn(f64) -> bool,
    ) -> Result<ValueKind, ValueError> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "ratios and seconds are small; the range check refuses the rest"
        )]
        let number = match value {
            ValueKind::I64(number) => *number as f64,
            ValueKind::Float(number) => *number,
            other => {
                return Err(ValueError::kind(
                    format!("a number is wanted, not {}", self.described(other)),
                    self.write(),
                ));
            }
        };
        if allowed(number) {
            Ok(ValueKind::Float(number))
        } else {
            Err(ValueError::value(
                format!("{number} is out of range"),
                self.write(),
            ))
        }
    }

    fn check_list(self, value: &ValueKind) -> Result<ValueKind, ValueError> {
        let elements = match value {
            ValueKind::Array(elements) => elements,
            ValueKind::String(text) => {
                return Err(ValueError::kind(
                    "a list is wanted, not a text",
                    format!("write [{text:?}]"),
                ));
            }
            other => {
                return Err(ValueError::kind(
                    format!("a list is wanted, not {}", self.described(other)),
                    self.write(),
                ));
            }
        };
        let mut seen: Vec<&str> = Vec::new();
        for (index, element) in elements.iter().enumerate() {
            let at = |wrong: ValueError| ValueError {
                element: Some(index),
                ..wrong
            };
            let ValueKind::String(text) = &element.kind else {
                let wrong = format!(
                    "a list of texts is wanted, this element is {}",
                    self.described(&element.kind)
                );
                return Err(at(ValueError::kind(wrong, self.write())));
            };
            self.check_text(text).map_err(at)?;
            if seen.contains(&text.as_str()) {
                return Err(at(ValueError::value(
                    format!("{text:?} stands in the list twice"),
                    "write it once",
                )));
            }
            seen.push(text);
        }
        Ok(value.clone())
    }

    fn check_device_spec(self, value: &ValueKind) -> Result<ValueKind, ValueError> {
        let ValueKind::Array(elements) = value else {
            let wrong = format!("a list is wanted, not {}", self.described(value));
            return Err(ValueError::kind(wrong, self.write()));
        };
        let entries: Vec<_> = elements.iter().map(json).collect();
        AllowList::read(&entries).map_err(|error| ValueError {
            element: error.entry.checked_sub(1),
            ..ValueError::value(error.to_string(), self.write())
        })?;
        Ok(value.clone())
    }

    fn check_pci_alias(self, value: &ValueKind) -> Result<ValueKind, ValueError> {
        let ValueKind::Array(elements) = value else {
            let wrong = format!("a list is wanted, not {}", self.described(value));
            return Err(ValueError::kind(wrong, self.write()));
        };
        for (element, alias) in elements.iter().map(json).enumerate() {
            PciAlias::read(&alias).map_err(|error| ValueError {
                element: Some(element),
                ..ValueError::value(error.to_string(), self.write())
            })?;
        }
        Ok(value.clone())
    }

    /// Checks a text, or one element of a list of texts.
    fn check_text(self, text: &str) -> Result<(), ValueError> {
        let refuse = |wrong: String| Err(ValueError::value(wrong, self.write()));
        if text.trim().is_empty() {
            return refuse("an empty text is no value".to_owned());
        }
        if text.contains(|letter: char| letter.is_control()) {
            return refuse("the text has control characters".to_owned());
        }
        match self {
            OptionKind::HostName if !is_host_name(text) => {
                refuse(format!("{text:?} is no host name"))
            }
            OptionKind::IpAddress if text.parse::<std::net::IpAddr>().is_err() => {
                refuse(format!("{text:?} is no IP address"))
            }
            OptionKind::SocketPath if text.len() > LONGEST_SOCKET_PATH => {
                refuse(format!("{} bytes are too many for a socket", text.len()))
            }
            OptionKind::Path | OptionKind::Paths | OptionKind::SocketPath
                if !text.starts_with('/') =>
            {
                refuse(format!("{text:?} is not absolute"))
            }
            OptionKind::Url(schemes) => check_url(text, schemes).or_else(refuse),
            OptionKind::LibvirtUri if !is_libvirt_uri(text) => {
                refuse(format!("{text:?} is no local libvirt connection URI"))
            }
            OptionKind::Database => match text.parse::<Location>() {
                Ok(Location::Server(_)) => Ok(()),
                _ if is_database(text) => Ok(()),
                // It does not repeat what may be a password.
                Err(error @ OpenError::Url(_)) => refuse(error.to_string()),
                _ => refuse("this is no database URL".to_owned()),
            },
            OptionKind::Driver(_) if text.starts_with("exec:") => {
                match text.starts_with("exec:/") {
                    true => Ok(()),
                    false => refuse(format!("{text:?} names no program by an absolute path")),
                }
            }
            OptionKind::Choice(words) | OptionKind::Choices(words) | OptionKind::Driver(words)
                if !words.contains(&text) =>
            {
                let guess = nearest(text, words.iter().copied());
                let right = guess.map_or_else(
                    || self.write(),
                    |word| format!("did you mean {word:?}? {}", self.write()),
                );
                Err(ValueError::value(
                    format!("{text:?} is not one of the words accepted"),
                    right,
                ))
            }
            OptionKind::CpuSet => match text.parse::<CpuSet>() {
                Ok(set) if set.is_empty() => refuse(format!("{text:?} leaves no CPU")),
                Ok(_) => Ok(()),
                Err(error) => Err(ValueError::value(
                    error.to_string(),
                    "an example is \"0-3,^2,8\"",
                )),
            },
            OptionKind::MdevTypes if !is_mdev_type(text) => {
                refuse(format!("{text:?} is no mediated device type"))
            }
            OptionKind::PciAddresses if text.parse::<PciAddress>().is_err() => {
                refuse(format!("{text:?} is no PCI address"))
            }
            OptionKind::Agents => check_agent(text).or_else(refuse),
            OptionKind::Endpoints => check_endpoint(text).or_else(refuse),
            OptionKind::UrlPath => match text.parse::<Prefix>() {
                Ok(_) => Ok(()),
                Err(error) => refuse(format!("{text:?} cannot stand before paths: {error}")),
            },
            OptionKind::Origins if text == "*" => Ok(()),
            OptionKind::Origins => check_origin(text).or_else(refuse),
            OptionKind::Names if !is_name(text) => refuse(format!("{text:?} is no such name")),
            OptionKind::MdevClass if !is_mdev_class(text) => {
                refuse(format!("{text:?} is not accepted"))
            }
            OptionKind::ListenOrNone if text == "none" => Ok(()),
            OptionKind::Listen | OptionKind::ListenOrNone | OptionKind::LoopbackListen => {
                self.check_listen(text)
            }
            _ => Ok(()),
        }
    }

    fn check_listen(self, text: &str) -> Result<(), ValueError> {
        match text.parse::<SocketAddr>() {
            Err(_) => Err(ValueError::value(
                format!("{text:?} is no address and port"),
                self.write(),
            )),
            Ok(address) if self == OptionKind::LoopbackListen && !address.ip().is_loopback() => {
                Err(ValueError::value(
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
}

fn is_host_name(text: &str) -> bool {
    text.len() <= 255
        && text
            .chars()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_'))
        && !text.starts_with(['.', '-'])
}

/// Mediated device types are directory names such as `nvidia-35` or `i915-GVTg_V5_4`.
pub(crate) fn is_mdev_type(text: &str) -> bool {
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

/// A file of this machine, or one that holds the URL.
fn is_database(text: &str) -> bool {
    if let Some(file) = text.strip_prefix("file:") {
        let path = file.strip_prefix("//").unwrap_or(file);
        return path.starts_with('/') && path.len() > 1;
    }
    let absolute = text
        .strip_prefix("sqlite:")
        .is_some_and(|path| path.starts_with('/') && path.len() > 1);
    absolute && text.parse::<Location>().is_ok()
}

/// An origin is compared with what a browser sends, so it is written as one does: no path, not even `/`.
fn check_origin(text: &str) -> Result<(), String> {
    check_url(text, &["http", "https"])?;
    let host = text.split_once("://").map_or(text, |(_, host)| host);
    match host.contains('/') {
        true => Err(format!("{text:?} has a path, and an origin has none")),
        false => Ok(()),
    }
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

fn check_endpoint(text: &str) -> Result<(), String> {
    match catalog_entry(text) {
        Some((_, _, url)) => check_url(url, &["http", "https"]),
        None => {
            let before = text.split('=').next().unwrap_or_default();
            Err(format!("{before:?} names no service's type before a ="))
        }
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
