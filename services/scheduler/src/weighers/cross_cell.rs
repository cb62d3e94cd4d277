//! `CrossCellWeigher`: where a move may leave its cell, hosts that are in it first.

use super::{Multiplier, Weigher, WeigherPlan};
use crate::options::SchedulerOptions;
use crate::request::RequestSpec;

pub(super) struct CrossCellWeigher;

impl Weigher for CrossCellWeigher {
    fn name(&self) -> &'static str {
        "CrossCellWeigher"
    }

    fn module(&self) -> &'static str {
        "cross_cell"
    }

    fn multiplier(&self) -> Multiplier {
        Multiplier::new("cross_cell_move_weight_multiplier", |options| {
            options.filter_scheduler.cross_cell_move_weight_multiplier
        })
    }

    fn plan<'a>(&'a self, request: &'a RequestSpec, _: &'a SchedulerOptions) -> WeigherPlan<'a> {
        let destination = request.requested_destination.as_ref();
        let cell = destination
            .filter(|it| it.allow_cross_cell_move)
            .and_then(|it| it.cell.as_deref());
        let Some(cell) = cell else {
            return WeigherPlan::same(0.0);
        };
        WeigherPlan::each(move |host| if host.cell == cell { 1.0 } else { -1.0 })
    }
}
