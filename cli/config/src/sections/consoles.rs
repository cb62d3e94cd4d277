//! The proxies of consoles, and the tokens that open them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use berth_options::text::check_url;
use berth_options::{OptionKind, TextKind, WEEK, options, seconds};

use super::Config;

options! {
    /// The proxy of VNC consoles.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct NovncproxySection in "vnc" {
        /// The address of this controller where browsers connect to VNC consoles, and get noVNC's files from `web`.
        novncproxy_host: Option<IpAddr> = None,
            derived: "`127.0.0.1` in `berth up`; `berth controller` has no VNC consoles without it", example: "\"192.0.2.10\"";
        /// The port of `novncproxy_host`.
        novncproxy_port: u16 = 6080;
        /// The URL of noVNC's page as users reach it, in front of which a proxy may be. The token is added to it.
        novncproxy_base_url: Option<String> = None, kind: PAGE_URL,
            derived: "`vnc_lite.html` at `novncproxy_host`", example: "\"https://cloud.example.org:6080/vnc_lite.html\"";
    }
}

options! {
    /// The consoles of serial ports, and their proxy.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct SerialConsoleSection in "serial_console" {
        /// Whether the API gives out serial consoles. Nova's default is false, because its serial consoles replace the console
        /// log; here guests have both.
        pub enabled: bool = true;
        /// The address of this controller where clients connect to serial consoles.
        serialproxy_host: Option<IpAddr> = None,
            derived: "`127.0.0.1` in `berth up`; `berth controller` has no serial consoles without it", example: "\"192.0.2.10\"";
        /// The port of `serialproxy_host`.
        serialproxy_port: u16 = 6083;
        /// The URL of the websocket as users reach it (`ws://` or `wss://`). The token is added to it.
        base_url: Option<String> = None, kind: WEBSOCKET_URL,
            derived: "the address of `serialproxy_host`", example: "\"wss://cloud.example.org:6083/\"";
    }
}

/// The URL of a page that a token is added to. It may have a query.
const PAGE_URL: OptionKind = OptionKind::Text(&TextKind::new(
    "URL (http, https)",
    "write a URL such as \"https://cloud.example.org:6080/vnc_lite.html\"",
    |text| check_url(without_query(text), &["http", "https"]),
));

/// The URL of a websocket that a token is added to. It may have a query.
const WEBSOCKET_URL: OptionKind = OptionKind::Text(&TextKind::new(
    "URL (ws, wss)",
    "write a URL such as \"wss://cloud.example.org:6083/\"",
    |text| check_url(without_query(text), &["ws", "wss"]),
));

fn without_query(url: &str) -> &str {
    url.split('?').next().unwrap_or_default()
}

options! {
    /// What the proxies of all consoles accept.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ConsoleSection in "console" {
        /// Host names of web pages that may connect to consoles, besides the name that the browser connects to: such as that of
        /// a dashboard.
        pub allowed_origins: Vec<String> = Vec::new(), kind: NAMES, example: "[\"dashboard.example.org\"]";
    }
}

options! {
    /// The tokens of consoles.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ConsoleauthSection in "consoleauth" {
        /// Seconds for which the URL of a console can be used, also more than once.
        pub token_ttl: Duration = seconds(600), kind: Integer(1, WEEK);
        /// Whether an open console is closed when its token expires.
        pub enforce_session_timeout: bool = false;
    }
}

/// What a process does without an address of a proxy in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsoleDefault {
    /// The proxy listens on the loopback interface.
    Loopback,
    /// There is no proxy.
    None,
}

/// The address of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyAddress {
    pub address: SocketAddr,
    /// Whether the configuration names it.
    pub is_configured: bool,
}

impl ConsoleDefault {
    fn address(self, host: Option<IpAddr>, port: u16) -> Option<ProxyAddress> {
        let own = match self {
            Self::Loopback => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            Self::None => None,
        };
        Some(ProxyAddress {
            address: SocketAddr::new(host.or(own)?, port),
            is_configured: host.is_some(),
        })
    }
}

impl Config {
    /// The address of the proxy of VNC consoles; `None` if there is none.
    #[must_use]
    pub fn novncproxy(&self, default: ConsoleDefault) -> Option<ProxyAddress> {
        let section = &self.novncproxy;
        let address = default.address(section.novncproxy_host, section.novncproxy_port);
        address.filter(|_| self.vnc.enabled)
    }

    /// The address of the proxy of serial consoles; `None` if there is none.
    #[must_use]
    pub fn serialproxy(&self, default: ConsoleDefault) -> Option<ProxyAddress> {
        let section = &self.serial_console;
        let address = default.address(section.serialproxy_host, section.serialproxy_port);
        address.filter(|_| section.enabled)
    }

    /// The URL of noVNC's page, if it is configured.
    #[must_use]
    pub fn novncproxy_base_url(&self) -> Option<&str> {
        self.novncproxy.novncproxy_base_url.as_deref()
    }

    /// The URL of the websocket of serial consoles, if it is configured.
    #[must_use]
    pub fn serial_base_url(&self) -> Option<&str> {
        self.serial_console.base_url.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigDocument, LoadedConfig, resolve};

    fn loaded(text: &str) -> Result<LoadedConfig, String> {
        let document = ConfigDocument {
            name: "berth.toml".to_owned(),
            text: text.to_owned(),
        };
        resolve(&[document], &[]).map_err(|refused| refused.to_string())
    }

    fn addresses(text: &str, default: ConsoleDefault) -> [Option<String>; 2] {
        let config = loaded(text).unwrap().config;
        let all = [config.novncproxy(default), config.serialproxy(default)];
        all.map(|proxy| proxy.map(|proxy| proxy.address.to_string()))
    }

    #[test]
    fn proxies_listen_on_loopback_in_up_and_where_they_are_told_in_a_controller() {
        let some = |address: &str| Some(address.to_owned());
        assert_eq!(
            addresses("", ConsoleDefault::Loopback),
            [some("127.0.0.1:6080"), some("127.0.0.1:6083")]
        );
        assert_eq!(addresses("", ConsoleDefault::None), [None, None]);
        let named = "[vnc]\nnovncproxy_host = \"::1\"\nnovncproxy_port = 80\n[serial_console]\nenabled = false\n";
        let expected = [some("[::1]:80"), None];
        assert_eq!(addresses(named, ConsoleDefault::None), expected);
        let off = "[vnc]\nenabled = false\n[serial_console]\nenabled = false\n";
        assert_eq!(addresses(off, ConsoleDefault::Loopback), [None, None]);
    }

    #[test]
    fn an_address_of_other_hosts_needs_tls_and_every_address_a_url() {
        let plain = "[vnc]\nnovncproxy_host = \"192.0.2.1\"\n";
        let refused = loaded(plain).unwrap_err();
        assert!(
            refused.contains("vnc.novncproxy_host") && refused.contains("without TLS"),
            "{refused}"
        );
        let encrypted = "tls_cert = \"/c.pem\"\ntls_key = \"/k.pem\"\n";
        assert!(loaded(&format!("{plain}{encrypted}")).is_ok());
        let every = format!("[vnc]\nnovncproxy_host = \"0.0.0.0\"\n{encrypted}");
        let refused = loaded(&every).unwrap_err();
        assert!(refused.contains("novncproxy_base_url"), "{refused}");
        let url = "novncproxy_base_url = \"https://c/vnc.html?autoconnect=1\"\n";
        assert!(loaded(&format!("{every}{url}")).is_ok());
        let wrong = "[serial_console]\nbase_url = \"http://c/\"\n";
        assert!(loaded(wrong).unwrap_err().contains("is not accepted here"));
    }
}
