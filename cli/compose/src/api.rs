//! The one listener: every service of this process behind one address, for callers with a token of the Identity service beside
//! them. Callers: `berth up`, `berth controller`.
//!
//! | room | noun |
//! |---|---|
//! | `listener` | [`OpenApi`]: the address, the Identity service, and what is served behind it |
//! | `first_user` | the user that is there before anybody made one |
//! | `clouds` | `clouds.yaml`, by which OpenStack's clients find it all |

mod clouds;
mod first_user;
mod front;
mod listener;

pub use front::{FrontListener, ServedListener};
pub use listener::OpenApi;
