//! A flavor's page size.

use crate::fit::flavor::extra_specs::{ExtraSpecs, FlavorError, WantedPages};

const KEY: &str = "hw:mem_page_size";

/// The usual page of most machines, in KiB: asked for by its size, it is a small one.
const USUAL_KIB: u64 = 4;

impl ExtraSpecs<'_> {
    pub(super) fn pages(self) -> Result<WantedPages, FlavorError> {
        Ok(match self.get(KEY) {
            None => WantedPages::Unsaid,
            Some("small") => WantedPages::Small,
            Some("large") => WantedPages::Large,
            Some("any") => WantedPages::Any,
            Some(text) => match kib(text) {
                Some(USUAL_KIB) => WantedPages::Small,
                Some(size_kib) if (64..=16 << 20).contains(&size_kib) => {
                    WantedPages::Of { size_kib }
                }
                _ => {
                    let reason = "it is small, large, any, or a page's size: a number of KiB (2048) or 2MB, 1GB, a power of two, 64 KiB to 16 GiB";
                    return Err(self.wrong(KEY, reason));
                }
            },
        })
    }
}

/// A size in KiB; only powers of two are pages.
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
