//! Authentication and service lookup: keystoneauth's options, a Keystone session, and the service catalog.
//!
//! [`AuthOptions`] is a plain struct that the configuration fills. [`AuthOptions::check`] reports all missing and
//! contradictory options at once. Before each request an [`crate::Adapter`] gets a token and an endpoint from [`Auth`].

mod auth;
mod check;
mod error;
mod options;
mod secret;
mod session;
pub(crate) mod target;

pub(crate) use auth::Renewal;
pub use auth::{Account, Auth};
pub use check::{OptionProblem, OptionsError};
pub use error::AuthError;
pub use options::{AuthOptions, AuthType, AuthTypeError, InterfaceError, ServiceInterface};
pub use secret::Secret;
pub use session::{WallClock, system_clock};
