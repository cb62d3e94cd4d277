//! A contest: many writers want the last units of one provider, from one Placement or from several over one database. All that
//! they asked and heard is a [`History`]; what the database itself saw, change by change, is a [`Testimony`]; and
//! [`place`] says whether each acknowledged write has its place by the provider's generations, and none came to more units
//! than there are. Called by the tests `claims` and `kill`.

mod history;
mod order;
mod services;
mod testimony;
mod writers;

pub use history::{Answer, Call, Event, Give, History, Want};
pub use order::{Order, Wrong, place, place_of};
pub use services::{Isolation, Services, ServicesError, Where, with_database};
pub use testimony::{Step, Testimony};
pub use writers::{Contest, Field, ask, consumer_uuid, provider_uuid};
