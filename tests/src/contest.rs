//! A contest: many writers claim the last units of one provider, from one Placement or from several over one database.
//!
//! All requests and answers form a [`ContestHistory`]. The changes that the database recorded form a
//! [`ProviderChangeLog`]. [`place`] checks that each acknowledged write has its position in the order of the provider's
//! generations, and that no position exceeds the capacity. Used by the tests `claims` and `kill`.

mod history;
mod order;
mod services;
mod change_log;
mod writers;

pub use history::{ContestAnswer, ContestCall, Event, AllocationModel, ContestHistory, DesiredAllocation};
pub use order::{WriteOrder, OrderViolation, place, place_of};
pub use services::{Isolation, Services, ServicesError, RowsLocation, with_database};
pub use change_log::{ProviderChange, ProviderChangeLog};
pub use writers::{Contest, RunningContest, ask, consumer_uuid, provider_uuid};
