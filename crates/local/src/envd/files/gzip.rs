//! gzip, a piece at a time: neither side ever holds more than a few megabytes, whatever a body unpacks to.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::{GzEncoder, MultiGzDecoder};
use futures_util::{Stream, StreamExt};

/// Packed bytes that are unpacked at a time. At gzip's best they become a thousand times as many.
const PIECE: usize = 4 << 10;

/// What `data` unpacks to. A body that is no gzip, or not all of it, ends with an error.
pub(super) fn unpacked<E: ToString + Send>(
    data: impl Stream<Item = Result<Bytes, E>> + Send,
) -> impl Stream<Item = Result<Bytes, io::Error>> + Send {
    async_stream::try_stream! {
        let mut decoder = MultiGzDecoder::new(Vec::new());
        let mut any = false;
        let mut data = std::pin::pin!(data);
        while let Some(chunk) = data.next().await {
            let chunk = chunk.map_err(|error| io::Error::other(error.to_string()))?;
            for piece in chunk.chunks(PIECE) {
                any = true;
                decoder.write_all(piece).map_err(broken)?;
                let out = std::mem::take(decoder.get_mut());
                if !out.is_empty() {
                    yield Bytes::from(out);
                }
            }
        }
        if any {
            decoder.try_finish().map_err(broken)?;
            let out = std::mem::take(decoder.get_mut());
            if !out.is_empty() {
                yield Bytes::from(out);
            }
        }
    }
}

fn broken(error: io::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the body is not whole gzip: {error}"))
}

/// `data`, packed.
pub(super) fn packed(
    data: impl Stream<Item = io::Result<Bytes>> + Send,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    async_stream::try_stream! {
        // Fast: it is a local connection, and most of the time goes into packing.
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        let mut data = std::pin::pin!(data);
        while let Some(chunk) = data.next().await {
            encoder.write_all(&chunk?)?;
            let out = std::mem::take(encoder.get_mut());
            if !out.is_empty() {
                yield Bytes::from(out);
            }
        }
        yield Bytes::from(encoder.finish()?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn gather(stream: impl Stream<Item = io::Result<Bytes>>) -> io::Result<(Vec<u8>, usize)> {
        let mut stream = std::pin::pin!(stream);
        let (mut all, mut largest) = (Vec::new(), 0);
        while let Some(chunk) = stream.next().await {
            let chunk = chunk?;
            largest = largest.max(chunk.len());
            all.extend(chunk);
        }
        Ok((all, largest))
    }

    fn pieces(bytes: Vec<u8>, size: usize) -> impl Stream<Item = io::Result<Bytes>> {
        let pieces: Vec<_> = bytes.chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        futures_util::stream::iter(pieces)
    }

    #[tokio::test]
    async fn what_is_packed_unpacks_to_the_same_in_bounded_pieces() {
        let zeros = vec![0; 50_000_000];
        let (small, _) = gather(packed(pieces(zeros.clone(), 65_536))).await.unwrap();
        assert!(small.len() < 500_000);
        let (all, largest) = gather(unpacked(pieces(small.clone(), usize::MAX))).await.unwrap();
        assert!(all == zeros);
        assert!(largest <= 8 << 20, "{largest}");
        // Two members are one file.
        let twice = [small.clone(), small.clone()].concat();
        assert_eq!(gather(unpacked(pieces(twice, 999))).await.unwrap().0.len(), 2 * zeros.len());
        let cut = gather(unpacked(pieces(small[..small.len() - 3].to_vec(), 1000))).await.unwrap_err();
        assert!(cut.to_string().contains("not whole gzip"), "{cut}");
        assert!(gather(unpacked(pieces(b"no gzip at all".to_vec(), 5))).await.is_err());
    }
}
