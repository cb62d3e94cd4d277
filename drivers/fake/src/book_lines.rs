//! The text format of a fake machine's guest book: one line with a snapshot, followed by one line per change.
//!
//! The snapshot is written together with the file and is always complete. Changes are appended; a kill may truncate the
//! last one. A truncated change was never acknowledged and is ignored. A file with only a snapshot is valid, too.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::device_assignment::{DeviceBook, DeviceRecord};
use crate::guests::{FakeGuest, GuestBook};

/// All of a book.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct BookSnapshot<'a> {
    guests: Vec<Cow<'a, FakeGuest>>,
    #[serde(default, skip_serializing_if = "DeviceBook::is_empty")]
    devices: DeviceBook,
}

/// One change of the book, stored as one line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
enum BookChange<'a> {
    /// A guest that was created or changed.
    Guest(Cow<'a, FakeGuest>),
    /// A guest that was deleted.
    Gone(Uuid),
    /// The status of a device. Devices are never removed from the book.
    Device(String, DeviceRecord),
}

/// The content of a book file.
pub(crate) struct Lines {
    pub(crate) book: GuestBook,
    /// The number of changes after the snapshot.
    pub(crate) changes: usize,
    /// Whether a change may be appended: the last line is complete.
    pub(crate) is_whole: bool,
}

/// The book in a file.
pub(crate) fn read(text: &[u8]) -> Result<Lines, String> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let whole: BookSnapshot<'_> =
        serde_json::from_slice(first).map_err(|error| error.to_string())?;
    let guests = whole.guests.into_iter().map(Cow::into_owned);
    let mut book = GuestBook {
        guests: guests.map(|made| (made.uuid(), Arc::new(made))).collect(),
        devices: whole.devices,
    };
    let mut is_whole = first.ends_with(b"\n");
    let mut changes = 0;
    for line in lines {
        if !line.ends_with(b"\n") {
            is_whole = false;
            break;
        }
        let change = serde_json::from_slice(line);
        let change = change.map_err(|error| format!("change {}: {error}", changes + 1))?;
        apply(&mut book, change);
        changes += 1;
    }
    Ok(Lines {
        book,
        changes,
        is_whole,
    })
}

fn apply(book: &mut GuestBook, change: BookChange<'_>) {
    match change {
        BookChange::Guest(made) => {
            let made = Arc::new(made.into_owned());
            book.guests.insert(made.uuid(), made);
        }
        BookChange::Gone(uuid) => {
            book.guests.remove(&uuid.into());
        }
        BookChange::Device(name, handled) => {
            book.devices.insert(name, handled);
        }
    }
}

/// The line with all of a book.
pub(crate) fn whole(book: &GuestBook) -> serde_json::Result<Vec<u8>> {
    let whole = BookSnapshot {
        guests: {
            let guests = book.guests.values();
            guests.map(|made| Cow::Borrowed(made.as_ref())).collect()
        },
        devices: book.devices.clone(),
    };
    let mut line = serde_json::to_vec(&whole)?;
    line.push(b'\n');
    Ok(line)
}

/// Returns the change lines that lead from `before` to `after`, and their number.
pub(crate) fn between(
    before: &GuestBook,
    after: &GuestBook,
) -> serde_json::Result<(Vec<u8>, usize)> {
    let made = after.guests.iter().filter(|(uuid, made)| {
        let known = before.guests.get(uuid);
        known.is_none_or(|known| !Arc::ptr_eq(known, made) && known != *made)
    });
    let made = made.map(|(_, made)| BookChange::Guest(Cow::Borrowed(made.as_ref())));
    let gone = before.guests.keys();
    let gone = gone.filter(|uuid| !after.guests.contains_key(uuid));
    let gone = gone.map(|uuid| BookChange::Gone(*uuid.as_uuid()));
    let devices = after.devices.iter();
    let devices = devices.filter(|(name, handled)| before.devices.get(*name) != Some(handled));
    let devices = devices.map(|(name, handled)| BookChange::Device(name.clone(), handled.clone()));
    let (mut lines, mut count) = (Vec::new(), 0);
    for change in gone.chain(made).chain(devices) {
        serde_json::to_writer(&mut lines, &change)?;
        lines.push(b'\n');
        count += 1;
    }
    Ok((lines, count))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::guests::tests::test_guest;

    fn book(guests: &BTreeMap<u8, bool>, devices: &BTreeMap<u8, bool>) -> GuestBook {
        let guests = guests.iter();
        let guests = guests.map(|(number, runs)| Arc::new(test_guest(*number, *runs)));
        let devices = devices.iter().map(|(number, ready)| {
            let name = format!("0000:{number:02x}:00.0");
            (name, DeviceRecord::ready_record(*ready))
        });
        GuestBook {
            guests: guests.map(|made| (made.uuid(), made)).collect(),
            devices: devices.collect(),
        }
    }

    prop_compose! {
        fn any_book()(
            guests in proptest::collection::btree_map(0u8..6, any::<bool>(), 0..6),
            devices in proptest::collection::btree_map(0u8..3, any::<bool>(), 3),
        ) -> GuestBook {
            book(&guests, &devices)
        }
    }

    proptest! {
        /// A file that is cut anywhere after its snapshot is the book as it was after some change.
        #[test]
        fn a_file_is_its_first_book_with_all_whole_changes(books in proptest::collection::vec(any_book(), 1..5), cut in any::<prop::sample::Index>()) {
            let first = whole(&books[0]).unwrap();
            let mut text = first.clone();
            let mut last = &books[0];
            let mut total = 0;
            for next in &books[1..] {
                let (lines, count) = between(last, next).unwrap();
                text.extend(lines);
                total += count;
                last = next;
            }
            let read_back = read(&text).unwrap();
            prop_assert_eq!((&read_back.book, read_back.changes, read_back.is_whole), (last, total, true));
            let at = first.len() + cut.index(text.len() - first.len() + 1);
            let cut = read(&text[..at]).unwrap();
            let whole_lines = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            let without = read(&text[..whole_lines]).unwrap();
            prop_assert_eq!((cut.book, cut.changes), (without.book, without.changes));
            prop_assert_eq!(cut.is_whole, at == whole_lines);
        }
    }

    #[test]
    fn a_change_that_is_none_is_an_error_and_not_left_out() {
        let mut text = whole(&GuestBook::default()).unwrap();
        text.extend(b"{\"guest\": 1}\n");
        let refused = read(&text).err().unwrap();
        assert!(refused.starts_with("change 1: "), "{refused}");
    }

    #[test]
    fn a_book_of_an_earlier_release_is_read_and_not_added_to() {
        let lines = read(b"{\"guests\":[]}").unwrap();
        assert_eq!(
            (lines.book, lines.changes, lines.is_whole),
            (GuestBook::default(), 0, false)
        );
    }
}
