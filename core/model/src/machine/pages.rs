//! Parses a flavor's page size.

use super::extra_specs::{ExtraSpecs, FlavorExtraSpecError, WantedCell, WantedPages};

const KEY: &str = "hw:mem_page_size";

/// The page size of most machines in KiB. A request for this size is a request for small pages.
const USUAL_KIB: u64 = 4;

impl ExtraSpecs<'_> {
    pub(super) fn pages(self) -> Result<WantedPages, FlavorExtraSpecError> {
        Ok(match self.get(KEY) {
            None => WantedPages::Unspecified,
            Some("small") => WantedPages::Small,
            Some("large") => WantedPages::Large,
            Some("any") => WantedPages::Any,
            Some(text) => match kib(text) {
                Some(USUAL_KIB) => WantedPages::Small,
                Some(size_kib) if (64..=16 << 20).contains(&size_kib) => {
                    WantedPages::Of { size_kib }
                }
                _ => {
                    let reason = "expected small, large, any, or a page size: a number of KiB (2048) or 2MB, 1GB; a power of two, 64 KiB to 16 GiB";
                    return Err(self.wrong(KEY, reason));
                }
            },
        })
    }

    /// Checks that the memory of each cell consists of whole pages.
    pub(super) fn whole_pages(
        self,
        cells: &[WantedCell],
        size_kib: u64,
    ) -> Result<(), FlavorExtraSpecError> {
        let odd = cells
            .iter()
            .find(|cell| !(cell.memory_mib.saturating_mul(1024)).is_multiple_of(size_kib));
        match odd {
            None => Ok(()),
            Some(cell) => Err(self.wrong(
                KEY,
                format!("the {} MiB of a cell are not whole pages", cell.memory_mib),
            )),
        }
    }
}

/// Parses a size into KiB. Page sizes are powers of two.
fn kib(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" | "K" | "KB" | "KiB" => 1,
        "M" | "MB" | "MiB" => 1 << 10,
        "G" | "GB" | "GiB" => 1 << 20,
        _ => return None,
    };
    let kib = number.parse::<u64>().ok()?.checked_mul(factor)?;
    kib.is_power_of_two().then_some(kib)
}
