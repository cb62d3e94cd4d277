//! Standard output whose reader may go away: `berth config show | head -1` is no error.

use std::io::{self, ErrorKind, Write};

/// Writes until the reader is gone; what comes after that is dropped.
pub(crate) struct Output<W> {
    out: W,
    reader: Reader,
}

enum Reader {
    There,
    Gone,
}

impl<W: Write> Output<W> {
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            reader: Reader::There,
        }
    }

    /// Takes a broken pipe as success.
    fn settle<T>(&mut self, result: io::Result<T>, dropped: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.reader = Reader::Gone;
                Ok(dropped)
            }
            other => other,
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.reader {
            Reader::Gone => Ok(bytes.len()),
            Reader::There => {
                let result = self.out.write(bytes);
                self.settle(result, bytes.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.reader {
            Reader::Gone => Ok(()),
            Reader::There => {
                let result = self.out.flush();
                self.settle(result, ())
            }
        }
    }
}
