use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

fn party(name: &str) -> Party {
    name.into()
}

/// A network with an echo at `b`.
fn echo() -> (Network, Party, Party) {
    let network = Network::new(Jitter::seeded(1));
    let (a, b) = (party("a"), party("b"));
    network.serve(
        &b,
        Arc::new(|socket, _| {
            tokio::spawn(async move {
                let (mut read, mut write) = tokio::io::split(socket);
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            });
        }),
    );
    (network, a, b)
}

async fn ask(socket: &mut Socket, text: &str) -> io::Result<String> {
    socket.write_all(text.as_bytes()).await?;
    let mut answer = vec![0; text.len()];
    socket.read_exact(&mut answer).await?;
    Ok(String::from_utf8(answer).unwrap())
}

#[tokio::test(start_paused = true)]
async fn messages_arrive_in_order_and_take_time() {
    let (network, a, b) = echo();
    let mut socket = network.connect(&a, &b).await.unwrap();
    let start = Instant::now();
    for text in ["one", "two", "three"] {
        socket.write_all(text.as_bytes()).await.unwrap();
    }
    let mut answer = [0; 11];
    socket.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"onetwothree");
    assert!(start.elapsed() >= Duration::from_millis(2));
    assert!(network.connect(&a, &party("nobody")).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_is_held_arrives_when_it_heals_unless_patience_is_lost() {
    let (network, a, b) = echo();
    let mut socket = network.connect(&a, &b).await.unwrap();
    network.cut(&a, &b);
    let healed = async {
        sleep(Duration::from_secs(5)).await;
        network.heal(&a, &b);
    };
    let start = Instant::now();
    let (answer, ()) = tokio::join!(ask(&mut socket, "late"), healed);
    assert_eq!(answer.unwrap(), "late");
    assert!(start.elapsed() >= Duration::from_secs(5));

    network.cut(&a, &b);
    let start = Instant::now();
    let error = ask(&mut socket, "never").await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(start.elapsed(), PATIENCE);
    let error = network.connect(&a, &b).await.err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    network.heal(&a, &b);
    let mut socket = network.connect(&a, &b).await.unwrap();
    assert_eq!(ask(&mut socket, "again").await.unwrap(), "again");
}

#[tokio::test(start_paused = true)]
async fn a_frozen_party_goes_on_where_it_stood() {
    let (network, a, b) = echo();
    let mut socket = network.connect(&a, &b).await.unwrap();
    network.freeze(&b);
    let thaw = async {
        sleep(Duration::from_mins(5)).await;
        network.thaw(&b);
    };
    let (answer, ()) = tokio::join!(ask(&mut socket, "wait"), thaw);
    assert_eq!(answer.unwrap(), "wait");
}

#[tokio::test(start_paused = true)]
async fn the_dead_are_heard_out_and_never_speak_again() {
    let (network, a, b) = echo();
    let mut socket = network.connect(&b, &b).await.unwrap();
    let mut other = network.connect(&a, &b).await.unwrap();
    other.write_all(b"last words").await.unwrap();
    sleep(Duration::from_secs(1)).await;
    network.kill(&b);
    let mut heard = Vec::new();
    let error = other.read_to_end(&mut heard).await.unwrap_err();
    assert_eq!(heard, b"last words");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    assert!(socket.write_all(b"zombie").await.is_err());
    assert!(socket.read_u8().await.is_err());
    assert!(network.connect(&b, &a).await.is_err());
}

/// Ends whoever posts.
struct Executioner {
    after: bool,
    answered: AtomicBool,
}

impl Witness for Executioner {
    fn departs(&self, request: &Departing) -> Fate {
        match (&*request.method, self.after) {
            ("POST", true) => Fate::DiesAfter,
            ("POST", false) => Fate::DiesBefore,
            _ => Fate::Lives,
        }
    }

    fn answers(&self, answer: &Answered) {
        assert_eq!((answer.status, &*answer.request.path), (200, "/x"));
        self.answered.store(true, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_witness_ends_a_sender_before_or_after_a_request() {
    for after in [false, true] {
        let network = Network::new(Jitter::seeded(1));
        let (a, b) = (party("a"), party("b"));
        let served = Arc::new(AtomicBool::new(false));
        let witness = Arc::new(Executioner {
            after,
            answered: AtomicBool::new(false),
        });
        network.show_to(witness.clone());
        let seen = served.clone();
        network.serve(
            &b,
            Arc::new(move |mut socket, _| {
                let seen = seen.clone();
                tokio::spawn(async move {
                    let mut request = [0; 64];
                    while let Ok(1..) = socket.read(&mut request).await {
                        seen.store(request.starts_with(b"POST"), Ordering::Relaxed);
                        let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                    }
                });
            }),
        );
        let mut socket = network.connect(&a, &b).await.unwrap();
        socket.write_all(b"GET /x HTTP/1.1\r\n\r\n").await.unwrap();
        socket.read_exact(&mut [0; 19]).await.unwrap();
        assert!(witness.answered.load(Ordering::Relaxed));
        let posted = socket.write_all(b"POST /x HTTP/1.1\r\n\r\n").await;
        assert_eq!(posted.is_ok(), after);
        assert!(socket.read_u8().await.is_err(), "no answer");
        sleep(Duration::from_secs(1)).await;
        assert_eq!(served.load(Ordering::Relaxed), after);
        assert!(network.is_dead(&a));
    }
}
