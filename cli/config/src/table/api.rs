//! The option of the one listener.

use super::row::row;
use crate::kind::OptionKind;
use crate::option::{Default, OptionRow};

#[rustfmt::skip]
pub(super) const ROWS: &[OptionRow] = &[
    row("api", "listen", OptionKind::ListenOrNone,
        Default::Derived("`127.0.0.1:8770`; in `berth up` `none` where a service asks a Keystone (`auth_strategy`)"),
        "Address and port where all APIs are served to callers with a token of the Identity service in this process: `/identity`, \
         `/compute`, `/placement`, `/accelerator`, and `/image` where `[glance]` names no image service. The services' own addresses stay beside it. It speaks HTTP: for callers of other \
         hosts put a proxy with TLS before it. `none`: it is not there.")
        .example("\"127.0.0.1:8770\""),
    row("api", "public_endpoint", OptionKind::Url(&["http", "https"]),
        Default::Derived("the address that is listened on"),
        "Where callers find it: what the catalog and `clouds.yaml` say.").example("\"https://cloud.example.org\""),
];
