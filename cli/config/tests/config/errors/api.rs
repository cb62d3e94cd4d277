//! `[api]`: the front listener.

use super::{Case, cases};

pub(super) const CASES: &[Case] = cases! {
    "[api]\nlisten = \"192.0.2.10:8770\"" => ["berth.toml:2:10: api.listen: 192.0.2.10:8770 is not on the loopback interface, and passwords and tokens would cross the network without TLS; write tls_cert and tls_key in [api] (berth tls init makes them), or insecure_http = true to accept that [BERTH-E0105]"];
    "[api]\nlisten = \"192.0.2.10:8770\"\ntrusted_proxies = [\"10.0.0.0/8\"]" => ["berth.toml:2:10: api.listen: 192.0.2.10:8770 is not on the loopback interface, and passwords and tokens would cross the network without TLS; write tls_cert and tls_key in [api] (berth tls init makes them), or insecure_http = true to accept that [BERTH-E0105]"];
    "[api]\nlisten = \"192.0.2.10:8770\"\ninsecure_http = true" => ["accepted"];
    "[api]\nlisten = \"192.0.2.10:8770\"\ntls_cert = \"/c\"\ntls_key = \"/k\"" => ["accepted"];
    "[api]\nlisten = \"192.0.2.10:8770\"\ntls_key = \"/k\"" => ["berth.toml:3:11: api.tls_key: tls_cert is not set, and TLS needs both; write tls_cert in [api] too, or remove it [BERTH-E0107]"];
    "[api]\ntrusted_proxies = [\"10.0.0.0/8\", \"proxy\"]" => ["berth.toml:2:34: api.trusted_proxies: \"proxy\" is neither an address nor a network; write proxies such as [\"192.0.2.5\", \"10.0.0.0/8\"] [BERTH-E0105]"];
    "[compute_service]\nlisten = \"192.0.2.10:8774\"\nauth_strategy = \"keystone\"\n[keystone_authtoken]\nauth_url = \"https://k/v3\"" => ["berth.toml:2:10: compute_service.listen: 192.0.2.10:8774 is not on the loopback interface, and tokens and user data would cross the network without TLS; write tls_cert and tls_key in [compute_service] (berth tls init makes them), or insecure_http = true to accept that [BERTH-E0105]"];
    "[agent]\nallowed_clients = [\"controller\"]" => ["berth.toml:2:20: agent.allowed_clients: \"controller\" is not the name of a client: a name has its kind before it: DNS:, IP:, URI: or email:; write names as in the certificates, such as [\"DNS:controller\"] [BERTH-E0105]"];
};
