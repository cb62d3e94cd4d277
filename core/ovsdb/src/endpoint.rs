//! [`OvsdbEndpoint`]: where a database server listens.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The address of a database server, in the notation of Open vSwitch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OvsdbEndpoint {
    /// `unix:/run/openvswitch/db.sock`
    Unix(PathBuf),
    /// `tcp:127.0.0.1:6640`. The connection is not encrypted.
    Tcp {
        /// A name or address.
        host: String,
        port: u16,
    },
}

/// The text is not the address of a database server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not the address of an Open vSwitch database; write \"unix:/run/openvswitch/db.sock\" or \
     \"tcp:127.0.0.1:6640\""
)]
pub struct OvsdbEndpointError {
    text: String,
}

impl FromStr for OvsdbEndpoint {
    type Err = OvsdbEndpointError;

    fn from_str(text: &str) -> Result<Self, OvsdbEndpointError> {
        let refuse = || OvsdbEndpointError {
            text: text.to_owned(),
        };
        match text.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => Ok(Self::Unix(path.into())),
            Some(("tcp", address)) => {
                let (host, port) = address.rsplit_once(':').ok_or_else(refuse)?;
                // An IPv6 address is in brackets, as in Open vSwitch.
                let host = match host.strip_prefix('[') {
                    Some(host) => host.strip_suffix(']').ok_or_else(refuse)?,
                    None if host.contains(':') => return Err(refuse()),
                    None => host,
                };
                let port = port.parse().map_err(|_| refuse())?;
                match host.is_empty() || port == 0 {
                    true => Err(refuse()),
                    false => Ok(Self::Tcp {
                        host: host.to_owned(),
                        port,
                    }),
                }
            }
            _ => Err(refuse()),
        }
    }
}

impl fmt::Display for OvsdbEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp:[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp:{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_written_as_in_open_vswitch() {
        for text in [
            "unix:/run/openvswitch/db.sock",
            "tcp:127.0.0.1:6640",
            "tcp:[::1]:6640",
        ] {
            let endpoint: OvsdbEndpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), text);
        }
    }

    #[test]
    fn any_other_text_is_refused_with_an_example() {
        for text in [
            "",
            "unix:db.sock",
            "tcp:127.0.0.1",
            "tcp::6640",
            "tcp:::1:6640",
            "tcp:[::1:6640",
            "tcp:host:0",
            "tcp:host:65536",
            "ssl:127.0.0.1:6640",
            "/run/openvswitch/db.sock",
        ] {
            let error = text.parse::<OvsdbEndpoint>().unwrap_err().to_string();
            assert!(error.contains("unix:/run/openvswitch/db.sock"), "{error}");
        }
    }
}
