//! What the one listener needs before it may be heard outside its host.

use berth_output::ErrorCode;

use super::Judge;

impl Judge<'_> {
    /// An address that stands for all of the host's is none that callers could ask.
    pub(super) fn api(&mut self) {
        let (listen, public) = ("api.listen", "api.public_endpoint");
        let Some(address) = self.config.api_listen() else {
            return;
        };
        if self.is_broken(&[listen, public]) {
            return;
        }
        if address.ip().is_unspecified() && self.config.api.public_endpoint.is_none() {
            self.refuse(
                listen,
                format!("{address} is every address of the host, so the catalog cannot say which callers are to ask"),
                "write public_endpoint = \"https://cloud.example.org\" in [api]",
                ErrorCode::Missing,
            );
        } else if !address.ip().is_loopback() {
            self.warn(
                listen,
                format!("passwords travel to {address} without TLS"),
                "write 127.0.0.1 or [::1], and put a proxy with TLS before it",
            );
        }
    }
}
