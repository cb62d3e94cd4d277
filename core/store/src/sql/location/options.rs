//! The options behind the `?` of a server's URL: those of libpq, of SQLAlchemy with PyMySQL, and of MySQL's own tools.

use std::path::PathBuf;

use super::server::{ServerKind, Tls, TlsMode, UrlError, decoded, port_of};

const OF_POSTGRES: &str = "application_name, client_encoding, host, password, port, sslcert, sslkey, sslmode, sslrootcert, user";
const OF_MYSQL: &str = "charset, ssl_ca, ssl_cert, ssl_check_hostname, ssl_disabled, ssl_key, ssl_mode, ssl_verify_cert, ssl_verify_identity, unix_socket";

/// The parsed options of a URL.
#[derive(Debug, Default)]
pub(super) struct UrlOptions {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) socket: Option<PathBuf>,
    pub(super) tls: Tls,
    mode: Option<TlsMode>,
    identity: bool,
}

impl UrlOptions {
    pub(super) fn of(kind: ServerKind, query: &str) -> Result<Self, UrlError> {
        let mut read = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(&value.replace('+', "%20"), "options")?;
            match kind {
                ServerKind::Postgres => read.postgres(name, value)?,
                ServerKind::MySql => read.mysql(name, value)?,
            }
        }
        read.tls.mode = read.tls_mode(kind);
        if read.tls.certificate.is_some() != read.tls.key.is_some() {
            return Err(UrlError::OptionValue {
                name: if kind == ServerKind::Postgres {
                    "sslcert"
                } else {
                    "ssl_cert"
                }
                .to_owned(),
                right: "given together with the key of the certificate",
            });
        }
        Ok(read)
    }

    fn postgres(&mut self, name: &str, value: String) -> Result<(), UrlError> {
        match name {
            "sslmode" => {
                self.mode = Some(match value.as_str() {
                    "disable" => TlsMode::Off,
                    // libpq uses TLS with `allow` only if the server refuses other connections; preferring TLS is at
                    // least as good.
                    "allow" | "prefer" => TlsMode::Preferred,
                    "require" => TlsMode::Required,
                    "verify-ca" => TlsMode::VerifyCa,
                    "verify-full" => TlsMode::VerifyFull,
                    _ => {
                        let right = "disable, allow, prefer, require, verify-ca or verify-full";
                        return wrong(name, right);
                    }
                });
            }
            "sslrootcert" => self.tls.ca = Some(file(name, value)?),
            "sslcert" => self.tls.certificate = Some(file(name, value)?),
            "sslkey" => self.tls.key = Some(file(name, value)?),
            "host" => self.host = Some(value),
            "port" => self.port = Some(port_of(&value)?),
            "user" => self.user = Some(value),
            "password" => self.password = Some(value),
            // Berth names its sessions itself, and always speaks UTF-8.
            "application_name" | "fallback_application_name" => {}
            "client_encoding" if is_utf8(&value) => {}
            "client_encoding" => return wrong(name, "utf8"),
            "options" | "service" | "passfile" => {
                return Err(UrlError::RefusedOption {
                    name: if name == "options" {
                        "options"
                    } else {
                        "service"
                    },
                    why: "it reads settings from another source; set them for the role on the server (ALTER ROLE), or write them into the URL",
                });
            }
            _ => return unknown(name, OF_POSTGRES),
        }
        Ok(())
    }

    fn mysql(&mut self, name: &str, value: String) -> Result<(), UrlError> {
        match name {
            "unix_socket" => self.socket = Some(file(name, value)?),
            // Berth uses utf8mb4, which includes the other character sets.
            "charset" if is_utf8(&value) => {}
            "charset" => return wrong(name, "utf8mb4, utf8mb3 or utf8"),
            "use_unicode" | "binary_prefix" | "autocommit" => {}
            "ssl_ca" => self.tls.ca = Some(file(name, value)?),
            "ssl_cert" => self.tls.certificate = Some(file(name, value)?),
            "ssl_key" => self.tls.key = Some(file(name, value)?),
            "ssl_mode" | "ssl-mode" => {
                self.mode = Some(match value.to_ascii_lowercase().as_str() {
                    "disabled" => TlsMode::Off,
                    "preferred" => TlsMode::Preferred,
                    "required" => TlsMode::Required,
                    "verify_ca" => TlsMode::VerifyCa,
                    "verify_identity" => TlsMode::VerifyFull,
                    _ => {
                        let right = "DISABLED, PREFERRED, REQUIRED, VERIFY_CA or VERIFY_IDENTITY";
                        return wrong(name, right);
                    }
                });
            }
            "ssl_disabled" if flag(name, &value)? => self.mode = Some(TlsMode::Off),
            "ssl_verify_cert" if flag(name, &value)? => {
                self.mode.get_or_insert(TlsMode::VerifyCa);
            }
            "ssl_verify_identity" | "ssl_check_hostname" => self.identity |= flag(name, &value)?,
            "ssl_disabled" | "ssl_verify_cert" => {}
            "read_default_file" | "read_default_group" => {
                return Err(UrlError::RefusedOption {
                    name: "read_default_file",
                    why: "Berth reads no MySQL option files; write the options into the URL",
                });
            }
            "plugin" => {
                return Err(UrlError::RefusedOption {
                    name: "plugin",
                    why: "plugins belong to SQLAlchemy; remove it from the URL",
                });
            }
            _ => return unknown(name, OF_MYSQL),
        }
        Ok(())
    }

    /// The TLS mode if none is given. With a CA, the certificate is verified, like in PyMySQL, and
    /// in libpq under `require`.
    fn tls_mode(&self, kind: ServerKind) -> TlsMode {
        let mode = match (kind, self.mode, &self.tls.ca) {
            (_, None, None) => TlsMode::default(),
            (ServerKind::Postgres, None, Some(_)) => TlsMode::VerifyFull,
            (ServerKind::MySql, None, Some(_)) => TlsMode::VerifyCa,
            (_, Some(TlsMode::Required), Some(_)) => TlsMode::VerifyCa,
            (_, Some(mode), _) => mode,
        };
        match mode {
            TlsMode::Off => mode,
            _ if self.identity => TlsMode::VerifyFull,
            _ => mode,
        }
    }
}

fn is_utf8(value: &str) -> bool {
    let plain = value.to_ascii_lowercase().replace(['-', '_'], "");
    matches!(plain.as_str(), "utf8" | "utf8mb3" | "utf8mb4" | "unicode")
}

fn flag(name: &str, value: &str) -> Result<bool, UrlError> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => wrong(name, "true or false").map(|()| false),
    }
}

fn file(name: &str, value: String) -> Result<PathBuf, UrlError> {
    match value.starts_with('/') {
        true => Ok(PathBuf::from(value)),
        false => wrong(name, "an absolute path").map(|()| PathBuf::new()),
    }
}

fn wrong(name: &str, right: &'static str) -> Result<(), UrlError> {
    Err(UrlError::OptionValue {
        name: name.to_owned(),
        right,
    })
}

/// The error for an unknown option. A text that does not look like an option's name may be part of a password
/// and is not shown.
fn unknown(name: &str, known: &'static str) -> Result<(), UrlError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_' || byte == b'-';
    let name = match name.len() <= 32 && name.bytes().all(plain) {
        true => name.to_owned(),
        false => String::new(),
    };
    Err(UrlError::UnknownOption { name, known })
}
