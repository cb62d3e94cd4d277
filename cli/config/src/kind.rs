//! What kinds of value an option can have: their check, their text from the environment, their name in the docs.

mod check;

use berth_output::ErrorCode;
use config::{Value, ValueKind};

pub(super) use check::is_mdev_type;

/// The kind of an option's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum OptionKind {
    /// Any text but an empty one.
    Text,
    /// A text that is never printed.
    Secret,
    /// A host name as Nova's `host`: letters, digits, `.`, `-`, `_`, at most 255.
    HostName,
    IpAddress,
    Path,
    /// A URL with one of these schemes.
    Url(&'static [&'static str]),
    /// A libvirt connection URI of a local hypervisor.
    LibvirtUri,
    /// A database of this process alone or on a server, as a URL; which may hold a password.
    Database,
    /// `true` or `false`.
    Flag,
    /// A whole number in this range.
    Integer(i64, i64),
    /// A decimal number over 0, at most this.
    Ratio(f64),
    /// A decimal number in this range.
    Number(f64, f64),
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
    /// A list of texts.
    Texts,
    /// A list of absolute paths.
    Paths,
    /// Nova's `device_spec`: a list of tables, or of JSON texts.
    DeviceSpec,
    /// Nova's `[pci] alias`: a list of tables, or of JSON texts.
    PciAlias,
    /// `VGPU` or a custom resource class.
    MdevClass,
    /// An absolute path of a unix socket, at most 107 bytes (`sun_path`, unix(7)).
    SocketPath,
    /// A list of agents: `NODE=https://HOST:PORT`.
    Agents,
    /// A list of services and where they are: `TYPE=URL` or `TYPE:INTERFACE=URL`.
    Endpoints,
    /// A path before all paths of an API: `/` and plain segments.
    UrlPath,
    /// A list of origins as browsers name them, or `*`.
    Origins,
    /// Address and port to listen on.
    Listen,
    /// The same, or `none`.
    ListenOrNone,
    /// Address and port to listen on, on the loopback interface only.
    LoopbackListen,
}

/// The most bytes of a unix socket's path (`sun_path`, unix(7)).
const LONGEST_SOCKET_PATH: usize = 107;

/// Why a value is refused.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ValueError {
    pub wrong: String,
    pub right: String,
    pub code: ErrorCode,
    /// Index of the list element that is wrong, where one is.
    pub element: Option<usize>,
}

impl OptionKind {
    /// What would be right, as the end of a sentence.
    pub(super) fn write(self) -> String {
        match self {
            OptionKind::Text => "write a text in quotes".into(),
            OptionKind::Secret => "write the secret in quotes, on one line".into(),
            OptionKind::IpAddress => "write an address such as \"192.0.2.17\" or \"2001:db8::17\"".into(),
            OptionKind::HostName => "write letters, digits, '.', '-' and '_', at most 255".into(),
            OptionKind::Path => "write a path that begins with /".into(),
            OptionKind::Paths => "write paths such as [\"/srv/images\"]".into(),
            OptionKind::SocketPath => {
                format!(
                    "write a path that begins with / and has at most {LONGEST_SOCKET_PATH} bytes"
                )
            }
            OptionKind::Url(schemes) => format!("write a URL that begins with {}", list(schemes, "://")),
            OptionKind::LibvirtUri => "write a URI such as \"qemu:///system\"".into(),
            OptionKind::Database => {
                "write sqlite:PATH with an absolute path, postgresql://USER:PASSWORD@HOST/DATABASE, \
                 mysql://USER:PASSWORD@HOST/DATABASE, or file:PATH of a file with that in it"
                    .into()
            }
            OptionKind::Flag => "write true or false, without quotes".into(),
            OptionKind::Integer(low, high) if high == i64::MAX => {
                format!("write a whole number from {low} on")
            }
            OptionKind::Integer(low, high) => format!("write a whole number from {low} to {high}"),
            OptionKind::Ratio(high) => format!("write a number over 0, at most {high}"),
            OptionKind::Number(low, high) => format!("write a number from {low} to {high}"),
            OptionKind::Seconds(low, high) => format!("write a number of seconds from {low} to {high}"),
            OptionKind::Choice(words) => format!("write one of {}", words.join(", ")),
            OptionKind::Driver(words) => {
                format!("write one of {}, or exec:/PATH/OF/A/PROGRAM", words.join(", "))
            }
            OptionKind::Choices(words) => format!("write a list of: {}", words.join(", ")),
            OptionKind::CpuSet => "write numbers, ranges and exclusions such as \"0-3,^2,8\"".into(),
            OptionKind::MdevTypes => {
                "write names as in mdev_supported_types, such as [\"nvidia-35\"]".into()
            }
            OptionKind::PciAddresses => "write addresses such as [\"0000:84:00.0\"]".into(),
            OptionKind::Agents => "write agents such as [\"compute2=https://192.0.2.11:9178\"]".into(),
            OptionKind::Endpoints => {
                "write services such as [\"placement=http://127.0.0.1:8778\", \"compute:public=https://cloud.example.org/v2.1\"]".into()
            }
            OptionKind::Texts => "write texts such as [\"one\", \"other\"]".into(),
            OptionKind::Names => "write names such as [\"Haswell-noTSX\"]".into(),
            OptionKind::DeviceSpec => {
                "write tables such as [{ address = \"0000:81:00.0\" }] or [{ vendor_id = \"10de\", product_id = \"1eb8\" }]"
                    .into()
            }
            OptionKind::PciAlias => {
                "write tables such as [{ name = \"a100\", vendor_id = \"10de\", product_id = \"20b7\", device_type = \"type-PF\" }]"
                    .into()
            }
            OptionKind::MdevClass => {
                "write \"VGPU\" or a custom class such as \"CUSTOM_GPU_SLICE\"".into()
            }
            OptionKind::UrlPath => "write a path such as \"/placement\"".into(),
            OptionKind::Origins => "write origins such as [\"https://dashboard.example.org\"], or [\"*\"]".into(),
            OptionKind::Listen => {
                "write address and port such as \"127.0.0.1:8778\" or \"[::]:8778\"".into()
            }
            OptionKind::ListenOrNone => {
                "write address and port such as \"127.0.0.1:8770\", or \"none\"".into()
            }
            OptionKind::LoopbackListen => {
                "write a loopback address and port such as \"127.0.0.1:9177\"".into()
            }
        }
    }

    /// The kind in the option reference.
    pub(super) fn documented(self) -> String {
        match self {
            OptionKind::Text => "text".into(),
            OptionKind::Secret => "secret text".into(),
            OptionKind::HostName => "host name".into(),
            OptionKind::IpAddress => "IP address".into(),
            OptionKind::Path | OptionKind::SocketPath => "absolute path".into(),
            OptionKind::Url(schemes) => format!("URL ({})", schemes.join(", ")),
            OptionKind::LibvirtUri => "local libvirt URI".into(),
            OptionKind::Database => {
                "database URL (sqlite:PATH, postgresql://, mysql://, or file:PATH of a file with it), secret".into()
            }
            OptionKind::Flag => "true or false".into(),
            OptionKind::Integer(low, high) if high == i64::MAX => format!("whole number, {low} or more"),
            OptionKind::Integer(low, high) => format!("whole number, {low} to {high}"),
            OptionKind::Ratio(high) => format!("number over 0, at most {high}"),
            OptionKind::Number(low, _) if low < 0.0 => "number".into(),
            OptionKind::Number(low, _) => format!("number, {low} or more"),
            OptionKind::Seconds(low, high) => format!("seconds, {low} to {high}"),
            OptionKind::Choice(words) => format!("one of {}", words.join(", ")),
            OptionKind::Driver(words) => format!("one of {}, or `exec:` and a path", words.join(", ")),
            OptionKind::Choices(words) => format!("list of: {}", words.join(", ")),
            OptionKind::CpuSet => "CPU set such as 0-3,^2,8".into(),
            OptionKind::MdevTypes => "list of mediated device types".into(),
            OptionKind::PciAddresses => "list of PCI addresses".into(),
            OptionKind::Names => "list of names".into(),
            OptionKind::Texts => "list of texts".into(),
            OptionKind::Agents => "list of NODE=https://HOST:PORT".into(),
            OptionKind::Endpoints => "list of TYPE=URL or TYPE:INTERFACE=URL".into(),
            OptionKind::Paths => "list of absolute paths".into(),
            OptionKind::DeviceSpec | OptionKind::PciAlias => "list of tables, or of JSON texts".into(),
            OptionKind::MdevClass => "VGPU or CUSTOM_…".into(),
            OptionKind::UrlPath => "path that begins with / and does not end with it".into(),
            OptionKind::Origins => "list of SCHEME://HOST[:PORT], or of `*`".into(),
            OptionKind::Listen => "address:port".into(),
            OptionKind::ListenOrNone => "address:port, or `none`".into(),
            OptionKind::LoopbackListen => "loopback address:port".into(),
        }
    }

    /// Whether the value must never be shown.
    #[must_use]
    pub fn is_secret(self) -> bool {
        matches!(self, OptionKind::Secret | OptionKind::Database)
    }

    /// Reads the text of an environment variable: lists are separated by commas.
    pub(super) fn of_variable(self, text: &str, origin: &str) -> ValueKind {
        let trimmed = text.trim();
        let as_text = || ValueKind::String(text.to_owned());
        match self {
            OptionKind::Flag => match trimmed.to_lowercase().as_str() {
                "true" | "yes" | "on" | "1" => ValueKind::Boolean(true),
                "false" | "no" | "off" | "0" => ValueKind::Boolean(false),
                _ => as_text(),
            },
            OptionKind::Integer(..) => trimmed.parse().map_or_else(|_| as_text(), ValueKind::I64),
            OptionKind::Ratio(_) | OptionKind::Number(..) | OptionKind::Seconds(..) => {
                trimmed.parse().map_or_else(|_| as_text(), ValueKind::Float)
            }
            // One text may hold a whole list, commas and all.
            OptionKind::DeviceSpec | OptionKind::PciAlias => {
                let text = ValueKind::String(trimmed.to_owned());
                ValueKind::Array(vec![Value::new(Some(&origin.to_owned()), text)])
            }
            OptionKind::Choices(_)
            | OptionKind::MdevTypes
            | OptionKind::PciAddresses
            | OptionKind::Names
            | OptionKind::Texts
            | OptionKind::Paths
            | OptionKind::Origins
            | OptionKind::Endpoints
            | OptionKind::Agents => {
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
