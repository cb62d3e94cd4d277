//! [`TransportUrl`]: the brokers of a cell, from oslo's `transport_url`.

use std::fmt;
use std::str::FromStr;

use berth_client::Secret;

/// The port of a broker whose address names none, with TLS too: oslo.messaging does the same.
const DEFAULT_PORT: u16 = 5672;

/// One broker and the account to use there. `Display` and `Debug` never show the password.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    pub host: String,
    pub port: u16,
    pub username: String,
    pub password: Secret,
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{self}", self.username)
    }
}

/// The brokers of a cell and the virtual host that all of them serve.
///
/// Its text is `rabbit://USER:PASSWORD@HOST:PORT,USER:PASSWORD@HOST:PORT/VIRTUAL_HOST`. Users, passwords and the virtual host may be
/// percent-encoded. An IPv6 address stands in brackets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransportUrl {
    brokers: Vec<BrokerAddress>,
    virtual_host: String,
}

/// Why a text is not a `transport_url`. It never contains the text, which has a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportUrlError {
    #[error("transport_url has the scheme {scheme:?}; only rabbit is known")]
    Scheme { scheme: String },
    #[error("transport_url has no scheme; write rabbit://USER:PASSWORD@HOST:PORT/VIRTUAL_HOST")]
    NoScheme,
    #[error("transport_url has an empty host at broker {broker}, counted from 1; write HOST:PORT")]
    NoHost { broker: usize },
    #[error(
        "transport_url has a wrong port at broker {broker}, counted from 1; write 1 to 65535, and in passwords %2F for a slash and \
         %2C for a comma"
    )]
    Port { broker: usize },
    #[error(
        "transport_url has an IPv6 address without its brackets at broker {broker}, counted from 1; write [ADDRESS]:PORT"
    )]
    Brackets { broker: usize },
    #[error(
        "transport_url has a wrong percent-encoding in its {part}; write %25 for a percent sign"
    )]
    Encoding { part: &'static str },
    #[error("transport_url has options after a question mark; set them in [oslo_messaging_rabbit]")]
    Query,
}

impl TransportUrl {
    /// The brokers; at least one.
    #[must_use]
    pub fn brokers(&self) -> &[BrokerAddress] {
        &self.brokers
    }

    /// The virtual host. kombu, the library below oslo.messaging, takes an empty one for `/`, and so does this.
    #[must_use]
    pub fn virtual_host(&self) -> &str {
        &self.virtual_host
    }
}

impl FromStr for TransportUrl {
    type Err = TransportUrlError;

    fn from_str(text: &str) -> Result<Self, TransportUrlError> {
        let (scheme, rest) = text.split_once("://").ok_or(TransportUrlError::NoScheme)?;
        if scheme != "rabbit" {
            let scheme = scheme.chars().take(40).collect();
            return Err(TransportUrlError::Scheme { scheme });
        }
        if rest.contains('?') {
            return Err(TransportUrlError::Query);
        }
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        let virtual_host = match decoded(path, "virtual host")? {
            empty if empty.is_empty() => "/".to_owned(),
            name => name,
        };
        let brokers = hosts
            .split(',')
            .filter(|broker| !broker.is_empty())
            .enumerate()
            .map(|(index, broker)| broker_of(broker, index + 1))
            .collect::<Result<Vec<_>, _>>()?;
        if brokers.is_empty() {
            return Err(TransportUrlError::NoHost { broker: 1 });
        }
        Ok(Self {
            brokers,
            virtual_host,
        })
    }
}

fn broker_of(text: &str, broker: usize) -> Result<BrokerAddress, TransportUrlError> {
    // A user name may contain an @, so the last one counts.
    let (account, address) = text.rsplit_once('@').unwrap_or(("", text));
    let (username, password) = account.split_once(':').unwrap_or((account, ""));
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest
                .split_once(']')
                .ok_or(TransportUrlError::Brackets { broker })?;
            (host, port.strip_prefix(':').unwrap_or(port))
        }
        None => address.split_once(':').unwrap_or((address, "")),
    };
    if port.contains(':') {
        return Err(TransportUrlError::Brackets { broker });
    }
    if host.is_empty() {
        return Err(TransportUrlError::NoHost { broker });
    }
    let port = match port {
        "" => DEFAULT_PORT,
        text => match text.parse() {
            Ok(port) if port > 0 => port,
            // The text may be a password with a slash or a comma in it, so the error does not repeat it.
            _ => return Err(TransportUrlError::Port { broker }),
        },
    };
    Ok(BrokerAddress {
        host: host.to_owned(),
        port,
        username: decoded(username, "user name")?,
        password: decoded(password, "password")?.into(),
    })
}

/// Decodes `%41` and the like. A plus sign is a plus sign.
fn decoded(text: &str, part: &'static str) -> Result<String, TransportUrlError> {
    let wrong = || TransportUrlError::Encoding { part };
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(wrong());
        };
        bytes.push(u8::try_from(high * 16 + low).map_err(|_| wrong())?);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> TransportUrl {
        text.parse().unwrap()
    }

    #[test]
    fn several_brokers_have_their_own_accounts_and_one_virtual_host() {
        let url = parsed("rabbit://os:p%40ss%2Fword@mq1:5671,us@er:x@[fd00::2],plain/nova%2Fcell1");
        assert_eq!(url.virtual_host(), "nova/cell1");
        let [first, second, third] = url.brokers() else {
            panic!("three brokers: {url:?}")
        };
        assert_eq!((first.host.as_str(), first.port), ("mq1", 5671));
        assert_eq!(first.password.reveal(), "p@ss/word");
        assert_eq!((second.host.as_str(), second.port), ("fd00::2", 5672));
        assert_eq!(second.username, "us@er");
        assert_eq!(second.to_string(), "[fd00::2]:5672");
        assert_eq!(
            (third.host.as_str(), third.username.as_str()),
            ("plain", "")
        );
    }

    #[test]
    fn no_virtual_host_is_the_one_named_slash() {
        for text in [
            "rabbit://h",
            "rabbit://h/",
            "rabbit://h/%2F",
            "rabbit://h//",
        ] {
            assert_eq!(parsed(text).virtual_host(), "/", "{text}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let url = parsed("rabbit://os:hunter2@mq1/");
        let shown = format!("{url:?} {url:#?} {}", url.brokers()[0]);
        assert!(
            !shown.contains("hunter2") && shown.contains("os@mq1:5672"),
            "{shown}"
        );
    }

    #[test]
    fn wrong_texts_are_refused_without_repeating_the_password() {
        for (text, expected) in [
            ("mq1:5672", "no scheme"),
            ("kafka://a:hunter2@mq1", "only rabbit"),
            ("rabbit:///nova", "empty host"),
            (
                "rabbit://a:hunter2@mq1,a:hunter2@:5672/",
                "empty host at broker 2",
            ),
            ("rabbit://a:hunter2@mq1:0/", "1 to 65535"),
            ("rabbit://a:hunter2@mq1:70000/", "1 to 65535"),
            ("rabbit://a:hunter2/x@mq1/", "1 to 65535"),
            ("rabbit://a:hunter2,x@mq1/", "1 to 65535"),
            ("rabbit://a:hunter2@fd00::2/", "brackets"),
            ("rabbit://a:hunter2@[fd00::2/", "brackets"),
            (
                "rabbit://a:hunter2%4@mq1/",
                "percent-encoding in its password",
            ),
            (
                "rabbit://a:hunter2%ff@mq1/",
                "percent-encoding in its password",
            ),
            ("rabbit://a:hunter2@mq1/?ssl=1", "question mark"),
        ] {
            let error = text.parse::<TransportUrl>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
