//! What containers have written, for `kubectl logs`.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncSeekExt as _, AsyncWriteExt as _};
use tokio::time::sleep;

use crate::apiserver::LogOptions;

/// How often a file that is followed is looked at.
const LOOK: Duration = Duration::from_millis(300);
/// Bytes under way to the reader.
const PIPE: usize = 64 << 10;

/// The file's content as it is asked for. Times and former runs are not told apart in it.
pub(super) async fn open(
    file: PathBuf,
    options: LogOptions,
) -> io::Result<Box<dyn AsyncRead + Send + Unpin>> {
    let mut file = tokio::fs::File::open(file).await?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).await?;
    let from = options.tail_lines.map_or(0, |lines| tail(&text, lines));
    if !options.follow {
        return Ok(Box::new(io::Cursor::new(text.split_off(from))));
    }
    let (near, mut far) = tokio::io::duplex(PIPE);
    tokio::spawn(async move {
        // Ends with the reader: nobody else says when it is enough.
        let copied: io::Result<()> = async {
            far.write_all(&text[from..]).await?;
            let mut at = u64::try_from(text.len()).unwrap_or(u64::MAX);
            loop {
                file.seek(io::SeekFrom::Start(at)).await?;
                at += tokio::io::copy(&mut file, &mut far).await?;
                far.flush().await?;
                sleep(LOOK).await;
            }
        }
        .await;
        tracing::debug!(?copied, "a log is not read any more");
    });
    Ok(Box::new(near))
}

/// Where the last lines begin.
fn tail(text: &[u8], lines: u64) -> usize {
    let lines = usize::try_from(lines).unwrap_or(usize::MAX);
    if lines == 0 {
        return text.len();
    }
    let body = text.strip_suffix(b"\n").unwrap_or(text);
    let ends = body
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b'\n');
    ends.map(|(at, _)| at + 1).nth(lines - 1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_found() {
        for (text, lines, rest) in [
            ("a\nb\nc\n", 2, "b\nc\n"),
            ("a\nb\nc", 1, "c"),
            ("a\n", 5, "a\n"),
            ("a\n", 0, ""),
            ("", 3, ""),
        ] {
            assert_eq!(
                &text[tail(text.as_bytes(), lines)..],
                rest,
                "{text:?} {lines}"
            );
        }
    }

    #[tokio::test]
    async fn a_followed_log_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "one\n").unwrap();
        let options = LogOptions {
            follow: true,
            ..LogOptions::default()
        };
        let mut log = open(path.clone(), options).await.unwrap();
        let mut text = [0; 8];
        log.read_exact(&mut text[..4]).await.unwrap();
        std::fs::write(&path, "one\ntwo\n").unwrap();
        log.read_exact(&mut text[4..]).await.unwrap();
        assert_eq!(&text, b"one\ntwo\n");
    }
}
