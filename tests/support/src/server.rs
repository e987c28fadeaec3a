//! An HTTP server that answers as a script has it, and remembers what it was asked. It is also a
//! proxy: requests that name a whole URL are answered, CONNECT is obeyed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::ring::default_provider;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tempfile::NamedTempFile;

/// No thread of the server outlives this.
const LIMIT: Duration = Duration::from_secs(60);

/// The path that is answered before the body is read.
pub const UNREAD: &str = "/unread";

/// An authority, its file and a server that it vouches for.
pub struct Trusted {
    file: NamedTempFile,
    pub server: ServerConfig,
}

impl Trusted {
    /// `name` is the authority's.
    pub fn new(host: &str, name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([host.to_string()]).unwrap();
        let certificate = params.signed_by(&key, &authority).unwrap();
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(authority.pem().as_bytes()).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Self { file, server }
    }

    /// The authority's certificate, as long as this lives.
    pub fn file(&self) -> PathBuf {
        self.file.path().into()
    }
}

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Received {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Which connection it came by, from 0.
    pub connection: usize,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let first = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} occurs twice");
        first
    }
}

#[derive(Debug, Clone)]
enum Part {
    Bytes(Vec<u8>),
    /// Nothing more, until the client hangs up.
    Hold,
    /// A byte now and then, until the client hangs up.
    Trickle,
    /// The end of the connection, but only after the client may have sent another request.
    LateClose,
    /// Nothing more, until so many requests have come.
    Gather(usize),
    /// Nothing more, until the test lets go.
    Pause,
    /// So many bytes, as far as the client takes them.
    Flood(usize),
    /// The end of the connection.
    Close,
}

/// Answer to requests for a path.
#[derive(Debug, Clone, Default)]
pub struct Answer(Vec<Part>);

impl Answer {
    /// A whole answer with a body.
    pub fn new(status: &str, headers: &[&str], body: &str) -> Self {
        let length = format!("Content-Length: {}", body.len());
        Self::head(status, &[headers, &[length.as_str()]].concat()).bytes(body)
    }

    /// The status and the headers alone.
    pub fn head(status: &str, headers: &[&str]) -> Self {
        let mut text = format!("HTTP/1.1 {status}\r\n");
        for header in headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        Self::default().bytes(&text).bytes("\r\n")
    }

    pub fn bytes(self, bytes: &str) -> Self {
        self.then(Part::Bytes(bytes.into()))
    }

    pub fn hold(self) -> Self {
        self.then(Part::Hold)
    }

    /// Holds the rest of the answer until this number of requests has come.
    pub fn gather(count: usize) -> Self {
        Self::default().then(Part::Gather(count))
    }

    /// Holds the rest of the answer until the test lets go.
    pub fn pause() -> Self {
        Self::default().then(Part::Pause)
    }

    /// All parts of another answer.
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub fn trickle(self) -> Self {
        self.then(Part::Trickle)
    }

    pub fn flood(self, bytes: usize) -> Self {
        self.then(Part::Flood(bytes))
    }

    pub fn close(self) -> Self {
        self.then(Part::Close)
    }

    pub fn late_close(self) -> Self {
        self.then(Part::LateClose)
    }

    fn then(mut self, part: Part) -> Self {
        self.0.push(part);
        self
    }
}

/// State that all connections share.
struct Shared {
    answers: HashMap<String, Answer>,
    received: Mutex<Vec<Received>>,
    connections: AtomicUsize,
    closed: AtomicUsize,
    /// Requests that were read and of whose answer nothing was sent.
    unanswered: AtomicUsize,
    most_unanswered: AtomicUsize,
    is_let_go: AtomicBool,
    flooded: Mutex<mpsc::Sender<usize>>,
    tls: Option<Arc<ServerConfig>>,
}

pub struct Server {
    pub port: u16,
    shared: Arc<Shared>,
    flooded: Mutex<mpsc::Receiver<usize>>,
}

impl Server {
    pub fn new(answers: &[(&str, Answer)]) -> Self {
        Self::start(answers, None)
    }

    pub fn with_tls(answers: &[(&str, Answer)], tls: ServerConfig) -> Self {
        Self::start(answers, Some(Arc::new(tls)))
    }

    fn start(answers: &[(&str, Answer)], tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, flooded) = mpsc::channel();
        let shared = Arc::new(Shared {
            answers: answers.iter().map(|(path, it)| ((*path).into(), it.clone())).collect(),
            received: Mutex::default(),
            connections: AtomicUsize::default(),
            closed: AtomicUsize::default(),
            unanswered: AtomicUsize::default(),
            most_unanswered: AtomicUsize::default(),
            is_let_go: AtomicBool::default(),
            flooded: Mutex::new(sender),
            tls,
        });
        let accepting = shared.clone();
        thread::spawn(move || accept(&listener, &accepting));
        Self { port, shared, flooded: Mutex::new(flooded) }
    }

    pub fn url(&self, path: &str) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}{path}", self.port)
    }

    pub fn received(&self) -> Vec<Received> {
        self.shared.received.lock().unwrap().clone()
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Largest number of requests that waited for an answer at a time.
    pub fn most_at_once(&self) -> usize {
        self.shared.most_unanswered.load(Ordering::SeqCst)
    }

    /// Lets every answer go on that pauses or will.
    pub fn let_go(&self) {
        self.shared.is_let_go.store(true, Ordering::SeqCst);
    }

    /// Waits until so many requests have come.
    pub fn wait_for_received(&self, count: usize) {
        wait_for("requests", || self.received().len() >= count);
    }

    /// Waits until the server has closed so many connections.
    pub fn wait_for_closed(&self, count: usize) {
        wait_for("closed connections", || self.shared.closed.load(Ordering::SeqCst) >= count);
    }

    /// Number of bytes of a flood that were read.
    pub fn flooded(&self) -> usize {
        self.flooded.lock().unwrap().recv_timeout(LIMIT).unwrap()
    }
}

impl Shared {
    fn wait(&self, part: &Part) {
        let is_over = || {
            if let Part::Gather(count) = part {
                self.received.lock().unwrap().len() >= *count
            } else {
                self.is_let_go.load(Ordering::SeqCst)
            }
        };
        let mut left = LIMIT.as_millis();
        while !is_over() && left > 0 {
            thread::sleep(Duration::from_millis(1));
            left -= 1;
        }
    }
}

/// Waits as long as a loaded machine may need.
fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..LIMIT.as_millis() {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("waited in vain for {what}");
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        let (stream, shared) = (stream.unwrap(), shared.clone());
        let connection = shared.connections.fetch_add(1, Ordering::SeqCst);
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_nodelay(true).unwrap();
        thread::spawn(move || {
            let socket = stream.try_clone().unwrap();
            serve(stream, connection, &shared);
            let _ = socket.shutdown(Shutdown::Both);
            shared.closed.fetch_add(1, Ordering::SeqCst);
        });
    }
}

fn serve(stream: TcpStream, connection: usize, shared: &Shared) {
    match &shared.tls {
        None => converse(stream, connection, shared),
        Some(tls) => {
            let tls = ServerConnection::new(tls.clone()).unwrap();
            converse(StreamOwned::new(tls, stream), connection, shared);
        }
    }
}

fn converse<S: Read + Write + Tunnel>(stream: S, connection: usize, shared: &Shared) {
    let mut stream = BufReader::new(stream);
    while let Some(request) = read(&mut stream, connection) {
        let (method, path) = (request.method.clone(), request.path.clone());
        let unanswered = shared.unanswered.fetch_add(1, Ordering::SeqCst) + 1;
        shared.most_unanswered.fetch_max(unanswered, Ordering::SeqCst);
        shared.received.lock().unwrap().push(request);
        let path = path
            .strip_prefix("http://")
            .map_or(path.as_str(), |url| url.find('/').map_or("/", |start| &url[start..]));
        // Of a query that differs each time its path is enough.
        let whole = shared.answers.get(path);
        match whole.or_else(|| shared.answers.get(path.split('?').next().unwrap_or(path))) {
            Some(answer) => {
                if !tell(answer, stream.get_mut(), shared) {
                    return;
                }
            }
            None if method == "CONNECT" => return stream.into_inner().tunnel(path),
            None => panic!("no answer for {path}"),
        }
    }
}

fn read(stream: &mut impl BufRead, connection: usize) -> Option<Received> {
    let mut line = || {
        let mut line = String::new();
        (stream.read_line(&mut line).ok()? > 0).then(|| line.trim_end().to_string())
    };
    let first = line()?;
    let mut words = first.split(' ').map(str::to_string);
    let (method, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_string(), value.trim_start().to_string()));
    }
    let mut request = Received { method, path, headers, body: Vec::new(), connection };
    let length = request.header("content-length").map_or(0, |key| key.parse().unwrap());
    if request.path != UNREAD {
        request.body.resize(length, 0);
    }
    stream.read_exact(&mut request.body).ok()?;
    Some(request)
}

/// True if the connection goes on.
fn tell(answer: &Answer, stream: &mut (impl Read + Write), shared: &Shared) -> bool {
    let waits = |part: &Part| matches!(part, Part::Gather(_) | Part::Pause);
    let (first, rest) = answer.0.split_at(answer.0.iter().take_while(|value| waits(value)).count());
    first.iter().for_each(|part| shared.wait(part));
    // The client may send the next request as soon as it has read anything.
    shared.unanswered.fetch_sub(1, Ordering::SeqCst);
    for part in rest {
        match part {
            Part::Gather(_) | Part::Pause => shared.wait(part),
            Part::Bytes(bytes) => {
                if stream.write_all(bytes).and_then(|()| stream.flush()).is_err() {
                    return false;
                }
            }
            Part::Hold => return stream.read(&mut [0]).is_ok_and(|_| false),
            Part::Trickle => {
                while stream.write_all(b"x").and_then(|()| stream.flush()).is_ok() {
                    thread::sleep(Duration::from_millis(10));
                }
                return false;
            }
            Part::Flood(bytes) => {
                shared.flooded.lock().unwrap().send(flood(stream, *bytes)).unwrap();
                return false;
            }
            Part::LateClose => {
                thread::sleep(Duration::from_millis(5));
                return false;
            }
            Part::Close => return false,
        }
    }
    true
}

fn flood(stream: &mut impl Write, bytes: usize) -> usize {
    let chunk = [b'x'; 64 * 1024];
    let mut sent = 0;
    while sent < bytes && stream.write_all(&chunk).is_ok() {
        sent += chunk.len();
    }
    sent
}

/// What CONNECT turns a connection into.
trait Tunnel {
    fn tunnel(self, to: &str);
}

impl Tunnel for TcpStream {
    fn tunnel(mut self, to: &str) {
        let Ok(far) = TcpStream::connect(to) else {
            let _ = self.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
            return;
        };
        self.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        splice(self, far);
    }
}

impl Tunnel for StreamOwned<ServerConnection, TcpStream> {
    fn tunnel(self, _to: &str) {
        panic!("there are no tunnels through TLS");
    }
}

/// Carries bytes both ways until one side hangs up.
pub fn splice(near: TcpStream, far: TcpStream) {
    let (mut from_near, mut to_far) = (near.try_clone().unwrap(), far.try_clone().unwrap());
    let there = thread::spawn(move || {
        let _ = std::io::copy(&mut from_near, &mut to_far);
        let _ = to_far.shutdown(Shutdown::Both);
    });
    let (mut from_far, mut to_near) = (far, near);
    let _ = std::io::copy(&mut from_far, &mut to_near);
    let _ = to_near.shutdown(Shutdown::Both);
    let _ = there.join();
}
