//! Streams the bytes of an image as a response body, whole or a range.

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

/// The requested bytes of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DataRange {
    Whole,
    /// From the first to the last, both included.
    Range(u64, u64),
}

/// A range that is none, or none of this image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfRange;

impl DataRange {
    /// Parses a `Range` header for data of this length. A request for several ranges gets the whole data.
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
    /// Opens a file only if it is a regular file. Other files are not opened at all.
    pub(crate) fn open_file(path: &Path) -> io::Result<File> {
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let file = File::open(path)?;
        // The file may have been replaced since the first check.
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("not a regular file")),
        }
    }

    /// Opens the data, if the file has not changed since the list was read. Runs on a blocking thread.
    pub(crate) async fn body(&self, asked: DataRange) -> io::Result<DataBody> {
        let (path, length, modified) = (self.path.clone(), self.length, self.modified);
        let opened = tokio::task::spawn_blocking(move || {
            let file = Self::open_file(&path)?;
            let found = file.metadata()?;
            match (found.len(), found.modified()?) == (length, modified) {
                true => Ok(file),
                false => Err(io::Error::other(
                    "the file has changed since the service started",
                )),
            }
        });
        let mut file = tokio::fs::File::from_std(opened.await.map_err(io::Error::other)??);
        let left = match asked {
            DataRange::Whole => length,
            DataRange::Range(first, last) => {
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

/// The response body: a file that is being sent.
pub(crate) struct DataBody {
    file: tokio::fs::File,
    /// Bytes that remain to be sent.
    left: u64,
    piece: Vec<u8>,
}

impl DataBody {
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
            (None, 10, Ok(DataRange::Whole)),
            (Some("bytes=0-4"), 10, Ok(DataRange::Range(0, 4))),
            (Some("bytes=4-"), 10, Ok(DataRange::Range(4, 9))),
            (Some("bytes=4-99"), 10, Ok(DataRange::Range(4, 9))),
            (Some("bytes=-3"), 10, Ok(DataRange::Range(7, 9))),
            (Some("bytes=-99"), 10, Ok(DataRange::Range(0, 9))),
            (Some("bytes=0-0,4-5"), 10, Ok(DataRange::Whole)),
            (Some("bytes=10-"), 10, Err(OutOfRange)),
            (Some("bytes=5-4"), 10, Err(OutOfRange)),
            (Some("bytes=-0"), 10, Err(OutOfRange)),
            (Some("bytes=0-"), 0, Err(OutOfRange)),
            (Some("lines=1-2"), 10, Err(OutOfRange)),
            (Some("bytes=a-b"), 10, Err(OutOfRange)),
            (Some("bytes=3"), 10, Err(OutOfRange)),
        ] {
            assert_eq!(
                DataRange::of(header, length),
                asked,
                "{header:?} of {length}"
            );
        }
    }
}
