//! Errors of the Placement client.

use std::fmt;

use berth_wire::placement::{ErrorCode, GenerationUnknown};
use http::StatusCode;

use crate::keystone::Account;
use crate::{AuthType, Disposition, MalformedAnswer, RequestLine, ServiceCallError};

/// An answer of Placement with a status other than success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementRefusal {
    pub request: RequestLine,
    pub status: StatusCode,
    /// Placement's codes, from microversion 1.23.
    pub codes: Vec<ErrorCode>,
    /// Placement's message, on one line.
    pub message: String,
    /// The answer's request id; `-` if it has none.
    pub request_id: String,
}

impl PlacementRefusal {
    /// Whether the refusal carries this code.
    #[must_use]
    pub fn has(&self, code: &ErrorCode) -> bool {
        self.codes.contains(code)
    }
}

impl fmt::Display for PlacementRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Placement answers {} with {}",
            self.request,
            self.status.as_u16()
        )?;
        for code in &self.codes {
            write!(f, " {code}")?;
        }
        write!(f, " ({})", self.request_id)?;
        if self.message.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.message)
        }
    }
}

/// Why a call of Placement failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    #[error(transparent)]
    Call(#[from] ServiceCallError),
    /// A generation conflict: another client wrote concurrently.
    #[error("{0}; it was changed concurrently and has to be read again")]
    Conflict(Box<PlacementRefusal>),
    /// The inventory is in use by allocations.
    #[error("{0}; allocations use that inventory")]
    InventoryInUse(Box<PlacementRefusal>),
    /// A provider of this name or UUID exists already.
    #[error(
        "{0}; if this host was renamed or its compute_id file was lost, restore the file with the UUID of the existing \
         provider (openstack resource provider list --name NAME)"
    )]
    NameTaken(Box<PlacementRefusal>),
    /// The provider is in use by allocations.
    #[error(
        "{0}; consumers hold allocations on it (openstack resource provider show --allocations UUID)"
    )]
    ProviderInUse(Box<PlacementRefusal>),
    /// The provider has children.
    #[error("{0}; delete its children first")]
    HasChildren(Box<PlacementRefusal>),
    /// The provider, class or trait does not exist.
    #[error("{0}; it does not exist, or no longer")]
    NotFound(Box<PlacementRefusal>),
    /// The account lacks permission.
    #[error("{refusal}; {}", role_hint(refusal, account))]
    Forbidden {
        refusal: Box<PlacementRefusal>,
        /// The account, as far as the options name it.
        account: Account,
    },
    /// Placement accepts neither the token nor a new one, which the client requests after the first refusal.
    #[error("{refusal}; {}", token_hint(account))]
    Unauthorized {
        refusal: Box<PlacementRefusal>,
        /// The account, as far as the options name it.
        account: Account,
    },
    /// Something else than Placement answers at its URL. After a first valid answer, the client no longer reports this.
    #[error("{url} is not a Placement API ({found}); {ENDPOINT_LIST}")]
    NotPlacement {
        url: String,
        /// What answers there.
        found: String,
    },
    /// Placement does not speak the microversion that this call needs.
    #[error(
        "{refusal}; it speaks the microversions {min_version} to {max_version}, and this call needs another: berth needs \
         Placement of Rocky (1.30) or later"
    )]
    TooOld {
        refusal: Box<PlacementRefusal>,
        /// The minimum supported version.
        min_version: String,
        /// The maximum supported version.
        max_version: String,
    },
    /// Placement or a proxy is temporarily unavailable.
    #[error("{0}; its log says more under that request id")]
    Unavailable(Box<PlacementRefusal>),
    /// Any other refusal.
    #[error("{}{}", .0, hint_for_status(.0))]
    Refused(Box<PlacementRefusal>),
    #[error(transparent)]
    Malformed(#[from] Box<MalformedAnswer>),
    /// A reshape names a provider that was neither created nor read.
    #[error(transparent)]
    GenerationUnknown(#[from] GenerationUnknown),
}

impl PlacementError {
    #[must_use]
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Call(error) => error.disposition(),
            Self::Unavailable(refusal) => refusal.request.if_unavailable(),
            Self::Malformed(answer) => answer.request.if_malformed(),
            Self::Conflict(_)
            | Self::InventoryInUse(_)
            | Self::ProviderInUse(_)
            | Self::HasChildren(_)
            | Self::NotFound(_)
            | Self::GenerationUnknown(_) => Disposition::Refresh,
            Self::NameTaken(_)
            | Self::Forbidden { .. }
            | Self::Unauthorized { .. }
            | Self::NotPlacement { .. }
            | Self::TooOld { .. }
            | Self::Refused(_) => Disposition::Fatal,
        }
    }

    /// The refusing answer, if there was one.
    #[must_use]
    pub fn refusal(&self) -> Option<&PlacementRefusal> {
        match self {
            Self::Conflict(refusal)
            | Self::InventoryInUse(refusal)
            | Self::NameTaken(refusal)
            | Self::ProviderInUse(refusal)
            | Self::HasChildren(refusal)
            | Self::NotFound(refusal)
            | Self::Forbidden { refusal, .. }
            | Self::Unauthorized { refusal, .. }
            | Self::TooOld { refusal, .. }
            | Self::Unavailable(refusal)
            | Self::Refused(refusal) => Some(refusal),
            Self::Call(_)
            | Self::Malformed(_)
            | Self::NotPlacement { .. }
            | Self::GenerationUnknown(_) => None,
        }
    }

    /// The error, without the hint of [`PlacementError::hint`].
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::Unauthorized { account, .. } => match account.auth_type {
                Some(AuthType::None) => "Placement requires a token".to_owned(),
                _ => "Placement does not accept the token".to_owned(),
            },
            Self::NotPlacement { url, found } => format!("{url} is not a Placement API ({found})"),
            Self::Forbidden { refusal, .. } | Self::Refused(refusal) => refusal.to_string(),
            _ => self.to_string(),
        }
    }

    /// What the user can do. `None` if [`PlacementError::what`] says it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unauthorized { account, .. } => Some(token_hint(account)),
            Self::NotPlacement { .. } => Some(ENDPOINT_LIST.to_owned()),
            Self::Forbidden { refusal, account } => Some(role_hint(refusal, account)),
            Self::Refused(refusal) => {
                let hint = hint_for_status(refusal).trim_start_matches("; ");
                (!hint.is_empty()).then(|| hint.to_owned())
            }
            _ => None,
        }
    }

    /// Adds the account of the client to errors about its rights.
    pub(super) fn with_account(self, asker: &Account) -> Self {
        let account = asker.clone();
        match self {
            Self::Forbidden { refusal, .. } => Self::Forbidden { refusal, account },
            Self::Unauthorized { refusal, .. } => Self::Unauthorized { refusal, account },
            other => other,
        }
    }
}

const ENDPOINT_LIST: &str = "its URL is [placement] endpoint_override, or by default the catalog's (openstack endpoint list --service placement)";

/// What to do if Placement does not accept the token.
fn token_hint(account: &Account) -> String {
    match account.auth_type {
        Some(AuthType::None) => {
            "set auth_type = \"admin_token\" and token = \"admin\" for a Placement with auth_strategy = \"noauth2\", \
             else the account of a user"
        }
        Some(AuthType::AdminToken) => {
            "a Placement with auth_strategy = \"noauth2\" accepts the token admin only; another one needs the account of \
             a user"
        }
        _ => "check the auth options, and that Placement asks the same Keystone",
    }
    .to_owned()
}

/// Which role the account needs. By default, Placement allows a reshape only with the role `service`, and everything else
/// with `admin`, too.
fn role_hint(refusal: &PlacementRefusal, account: &Account) -> String {
    if account.auth_type == Some(AuthType::AdminToken) {
        return token_hint(account);
    }
    let user = account.user.as_deref().unwrap_or("USER");
    let project = account.project.as_deref().unwrap_or("PROJECT");
    let needs = if refusal.request.route == "/reshaper" {
        "POST /reshaper needs the role service, and admin is not enough"
    } else {
        "it needs the role service or admin"
    };
    // Berth's Placement lets the account of a host change what belongs to this host alone, whatever its roles are.
    let of_host = match user.starts_with("host/") {
        true => ", or the account of a host may not do this",
        false => "",
    };
    format!(
        "{needs}: openstack role add --user {user} --project {project} service; if the account has it, Placement's \
         policy.yaml requires more{of_host}"
    )
}

/// What to do about a refusal with this status, after a separator.
fn hint_for_status(refusal: &PlacementRefusal) -> &'static str {
    match refusal.status {
        StatusCode::PAYLOAD_TOO_LARGE => {
            "; a proxy before Placement limits the size of requests (LimitRequestBody, client_max_body_size): raise it"
        }
        StatusCode::BAD_REQUEST => {
            "; Placement does not accept this request as berth makes it: its log says more under that request id, \
             berth doctor compares versions"
        }
        status if status.is_redirection() => {
            "; redirects are not followed: set endpoint_override to where it points"
        }
        StatusCode::CONFLICT => "",
        _ => {
            "; Placement does not answer with this status: check which service has that URL (openstack endpoint list \
             --service placement, endpoint_override), and the proxies before it"
        }
    }
}
