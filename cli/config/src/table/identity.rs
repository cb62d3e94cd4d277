//! The options of the built-in Identity service; names and defaults are Keystone's where it has the option.

use super::row::row;
use crate::kind::OptionKind;
use crate::option::{Default, OptionRow};

#[rustfmt::skip]
pub(super) const ROWS: &[OptionRow] = &[
    row("identity_service", "connection", OptionKind::Database,
        Default::Derived("`sqlite:` and `identity.sqlite` below `state_path`"),
        "The database of tokens. Several processes may serve the API on one of a server, each with the same users.")
        .example("\"sqlite:/var/lib/berth/identity.sqlite\""),
    row("identity_service", "listen", OptionKind::Listen, Default::Text("127.0.0.1:5000"),
        "Address and port of the API. It speaks HTTP: for callers of other hosts put a proxy with TLS before it."),
    row("identity_service", "users_file", OptionKind::Path, Default::Text("/etc/berth/identity.toml"),
        "The file of users, projects, roles and who has which where; read again when it has changed. Only its owner may write to it. Where \
         nobody named one and this is not there, `berth up` and `berth controller` make `identity.toml` below `state_path`, with one user."),
    row("identity_service", "public_endpoint", OptionKind::Url(&["http", "https"]),
        Default::Derived("the address that is listened on"),
        "Where callers find the service, without `/v3`: what the catalog and links say. Keystone's option of this name, from its \
         `[DEFAULT]`.").example("\"https://cloud.example.org/identity\""),
    row("identity_service", "path_prefix", OptionKind::UrlPath, Default::Unset,
        "What stands before every path of the API; where a proxy takes it away, requests are answered without it as well.")
        .example("\"/identity\""),
    row("identity_service", "token_expiration", OptionKind::Integer(60, 604_800), Default::Integer(3600),
        "Seconds for which a token is good: Keystone's `expiration`, from its `[token]`."),
    row("identity_service", "region", OptionKind::Text, Default::Text("RegionOne"),
        "The region of every endpoint in the catalog."),
    row("identity_service", "catalog", OptionKind::Endpoints, Default::List(&[]),
        "The other services and where they are: `TYPE=URL` for all callers, `TYPE:public=URL`, `TYPE:internal=URL` or \
         `TYPE:admin=URL` for some. The Identity service itself is in the catalog without an entry.")
        .example("[\"placement=http://127.0.0.1:8778\", \"accelerator=http://127.0.0.1:6666/v2\"]"),
];
