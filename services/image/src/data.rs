//! The bytes of an image as a body, whole or a range of them.

use std::fs::File;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead as _, AsyncSeekExt as _, ReadBuf};

use crate::image::Data;

/// The most of one piece, in bytes.
const PIECE: u64 = 256 << 10;

/// Which bytes of an image are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Whole,
    /// From the first to the last, both included.
    Range(u64, u64),
}

/// A range that is none, or none of this image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfRange;

impl Asked {
    /// What a `Range` header asks for of this many bytes. Several ranges at once are answered with the whole.
    pub(crate) fn of(header: Option<&str>, length: u64) -> Result<Self, OutOfRange> {
        let Some(header) = header else {
            return Ok(Self::Whole);
        };
        let ranges = header.trim().strip_prefix("bytes=").ok_or(OutOfRange)?;
        if ranges.contains(',') {
            return Ok(Self::Whole);
        }
        let (first, last) = ranges.split_once('-').ok_or(OutOfRange)?;
        let number = |text: &str| text.trim().parse::<u64>().map_err(|_| OutOfRange);
        let end = length.checked_sub(1).ok_or(OutOfRange)?;
        let (first, last) = match (first.trim(), last.trim()) {
            ("", suffix) => match number(suffix)? {
                0 => return Err(OutOfRange),
                count => (length.saturating_sub(count), end),
            },
            (first, "") => (number(first)?, end),
            (first, last) => (number(first)?, number(last)?.min(end)),
        };
        match first <= last && first <= end {
            true => Ok(Self::Range(first, last)),
            false => Err(OutOfRange),
        }
    }
}

impl Data {
    /// Opens a regular file; nothing else is opened, not even to look.
    pub(crate) fn open_file(path: &Path) -> io::Result<File> {
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let file = File::open(path)?;
        // What was looked at may be another by now.
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is not a regular file")),
        }
    }

    /// The bytes that are asked for, once the file is still what it was when the list was read. Blocks no thread of the runtime.
    pub(crate) async fn body(&self, asked: Asked) -> io::Result<DataBody> {
        let (path, length, modified) = (self.path.clone(), self.length, self.modified);
        let opened = tokio::task::spawn_blocking(move || {
            let file = Self::open_file(&path)?;
            let found = file.metadata()?;
            match (found.len(), found.modified()?) == (length, modified) {
                true => Ok(file),
                false => Err(io::Error::other("it changed since the start")),
            }
        });
        let mut file = tokio::fs::File::from_std(opened.await.map_err(io::Error::other)??);
        let left = match asked {
            Asked::Whole => length,
            Asked::Range(first, last) => {
                file.seek(io::SeekFrom::Start(first)).await?;
                last - first + 1
            }
        };
        Ok(DataBody {
            file,
            left,
            piece: Vec::new(),
        })
    }
}

/// A file on its way.
pub(crate) struct DataBody {
    file: tokio::fs::File,
    /// How many bytes are still to come.
    left: u64,
    piece: Vec<u8>,
}

impl DataBody {
    /// How many bytes are still to come.
    pub(crate) fn left(&self) -> u64 {
        self.left
    }
}

impl Body for DataBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let this = self.get_mut();
        if this.left == 0 {
            return Poll::Ready(None);
        }
        let most = usize::try_from(this.left.min(PIECE)).unwrap_or(usize::MAX);
        this.piece.resize(most, 0);
        let mut piece = ReadBuf::new(&mut this.piece);
        ready!(Pin::new(&mut this.file).poll_read(context, &mut piece))?;
        let piece = piece.filled();
        let came = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        if came == 0 {
            let ended = io::Error::new(io::ErrorKind::UnexpectedEof, "the file ended early");
            return Poll::Ready(Some(Err(ended)));
        }
        this.left -= came;
        Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(piece)))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_what_of_it_is_there() {
        for (header, length, asked) in [
            (None, 10, Ok(Asked::Whole)),
            (Some("bytes=0-4"), 10, Ok(Asked::Range(0, 4))),
            (Some("bytes=4-"), 10, Ok(Asked::Range(4, 9))),
            (Some("bytes=4-99"), 10, Ok(Asked::Range(4, 9))),
            (Some("bytes=-3"), 10, Ok(Asked::Range(7, 9))),
            (Some("bytes=-99"), 10, Ok(Asked::Range(0, 9))),
            (Some("bytes=0-0,4-5"), 10, Ok(Asked::Whole)),
            (Some("bytes=10-"), 10, Err(OutOfRange)),
            (Some("bytes=5-4"), 10, Err(OutOfRange)),
            (Some("bytes=-0"), 10, Err(OutOfRange)),
            (Some("bytes=0-"), 0, Err(OutOfRange)),
            (Some("lines=1-2"), 10, Err(OutOfRange)),
            (Some("bytes=a-b"), 10, Err(OutOfRange)),
            (Some("bytes=3"), 10, Err(OutOfRange)),
        ] {
            assert_eq!(Asked::of(header, length), asked, "{header:?} of {length}");
        }
    }
}
