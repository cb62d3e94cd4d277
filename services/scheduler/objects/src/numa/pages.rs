//! Memory of a cell: by pages if the host reports them, otherwise as a whole.

use super::{CellNeed, CellReason};
use crate::host_state::{NumaCell, NumaPages};
use crate::request::PageSize;

/// The page size in KiB that a cell would use; `None` if the host reports no pages and none are requested.
pub(super) fn choose(need: &CellNeed, cell: &NumaCell) -> Result<Option<i64>, CellReason> {
    let smallest = cell.mempages.iter().map(|pages| pages.size_kb).min();
    let Some(wanted) = need.pagesize else {
        return match smallest {
            Some(size) => of_smallest(need, cell, size).map(Some),
            None => whole(need, cell).map(|()| None),
        };
    };
    let is_right = |size: i64| match wanted {
        PageSize::Small => Some(size) == smallest,
        PageSize::Large => Some(size) != smallest,
        PageSize::Any => true,
        PageSize::Kib(wanted) => size == wanted,
    };
    let sizes = || cell.mempages.iter().filter(|it| is_right(it.size_kb));
    let fitting = sizes().filter(|pages| takes(pages.size_kb, need, free_kb(pages)));
    if let Some(size) = fitting.map(|pages| pages.size_kb).max() {
        return Ok(Some(size));
    }
    let pagesize = name(wanted);
    Err(match sizes().map(free_kb).max() {
        None => CellReason::PageSize { pagesize },
        Some(available_kb) => CellReason::Pages {
            pagesize,
            requested_kb: kib(need.memory),
            available_kb,
        },
    })
}

/// Memory for dedicated CPUs is never overcommitted; for shared ones all of the pages count, used or not, as the instance must
/// not be overcommitted against itself.
fn of_smallest(need: &CellNeed, cell: &NumaCell, size: i64) -> Result<i64, CellReason> {
    let mut pools = cell.mempages.iter().filter(|pages| pages.size_kb == size);
    let available_kb = pools.next().map_or(0, |pages| match need.pinned {
        Some(_) => free_kb(pages),
        None => pages.total.saturating_mul(pages.size_kb),
    });
    match takes(size, need, available_kb) {
        true => Ok(size),
        false => Err(CellReason::Pages {
            pagesize: size.to_string(),
            requested_kb: kib(need.memory),
            available_kb,
        }),
    }
}

fn whole(need: &CellNeed, cell: &NumaCell) -> Result<(), CellReason> {
    let available_mb = match need.pinned {
        Some(_) => cell.memory.saturating_sub(cell.memory_usage),
        None => cell.memory,
    };
    match need.memory <= available_mb {
        true => Ok(()),
        false => Err(CellReason::Memory {
            requested_mb: need.memory,
            available_mb,
        }),
    }
}

/// Whether the memory fits into pages of this size, in whole pages.
fn takes(size_kb: i64, need: &CellNeed, available_kb: i64) -> bool {
    let requested = kib(need.memory);
    requested <= available_kb && size_kb > 0 && requested % size_kb == 0
}

pub(super) fn kib(mib: i64) -> i64 {
    mib.saturating_mul(1024)
}

fn free_kb(pages: &NumaPages) -> i64 {
    let taken = pages.used.saturating_add(pages.reserved);
    pages
        .total
        .saturating_sub(taken)
        .saturating_mul(pages.size_kb)
}

fn name(size: PageSize) -> String {
    match size {
        PageSize::Small => "small".to_owned(),
        PageSize::Large => "large".to_owned(),
        PageSize::Any => "any".to_owned(),
        PageSize::Kib(size) => size.to_string(),
    }
}
