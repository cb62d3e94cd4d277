//! `[identity_service]`: the Identity service built in.

use super::{Case, cases};

pub(super) const CASES: &[Case] = cases! {
    "[identity_service]\nlisten = \"0.0.0.0:5000\"" => ["berth.toml:2:10: identity_service.listen: 0.0.0.0:5000 is not on the loopback interface, and passwords would cross the network without TLS; write tls_cert and tls_key in [identity_service] (berth tls init makes them), or insecure_http = true to accept that [BERTH-E0105]", "berth.toml:2:10: identity_service.listen: 0.0.0.0:5000 means every address of the host, and the service catalog needs one concrete address; write public_endpoint = \"https://cloud.example.org/identity\" in [identity_service] [BERTH-E0107]"];
    "[identity_service]\ntls_cert = \"/c\"" => ["berth.toml:2:12: identity_service.tls_cert: tls_key is not set, and TLS needs both; write tls_key in [identity_service] too, or remove it [BERTH-E0107]"];
    "[identity_service]\ntoken_expiration = 5" => ["berth.toml:2:20: identity_service.token_expiration: 5 is out of range; write a whole number from 60 to 604800 [BERTH-E0105]"];
    "[identity_service]\nusers_file = \"identity.toml\"" => ["berth.toml:2:14: identity_service.users_file: \"identity.toml\" is not absolute; write a path that begins with / [BERTH-E0105]"];
    "[identity_service]\ncatalog = [\"http://127.0.0.1:8778\"]" => ["berth.toml:2:12: identity_service.catalog: \"http://127.0.0.1:8778\" names no service's type before a =; write services such as [\"placement=http://127.0.0.1:8778\", \"compute:public=https://cloud.example.org/v2.1\"] [BERTH-E0105]"];
    "[identity_service]\ncatalog = [\"placement:everybody=http://127.0.0.1:8778\"]" => ["berth.toml:2:12: identity_service.catalog: \"placement:everybody\" names no service's type before a =; write services such as [\"placement=http://127.0.0.1:8778\", \"compute:public=https://cloud.example.org/v2.1\"] [BERTH-E0105]"];
};
