//! Cancellation of the statements of all open connections to a server, from another thread: asks
//! the server to cancel them, and shuts the connections where it does not answer.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};
use std::thread;

use postgres::{CancelToken, NoTls};
use rustix::net::{Shutdown, shutdown};

use super::Server;
use crate::lock::lock;
use crate::store::Interrupter;

/// A request to cancel is sent at the first call and at every one of so many that follow.
const CALLS_PER_REQUEST: u32 = 10;
/// After so many calls the server does not answer: the connections end.
const CALLS_TO_SHUTDOWN: u32 = 30;

/// An open connection, as far as it takes to end what it is at.
pub struct Line {
    cancel: CancelToken,
    socket: Option<Arc<OwnedFd>>,
}

/// The open connections to a server.
pub type Lines = Mutex<Vec<Weak<Line>>>;

impl Server {
    /// Has a connection ended with the others. It counts as open as long as the result lives.
    pub fn enlist(&self, cancel: CancelToken, socket: Option<Arc<OwnedFd>>) -> Arc<Line> {
        let line = Arc::new(Line { cancel, socket });
        let mut lines = lock(&self.lines);
        lines.retain(|line| line.strong_count() > 0);
        lines.push(Arc::downgrade(&line));
        line
    }

    pub fn interrupter(self: &Arc<Self>) -> Interrupter {
        let (server, mut calls) = (self.clone(), 0_u32);
        Box::new(move || {
            let lines: Vec<_> = lock(&server.lines).iter().filter_map(Weak::upgrade).collect();
            if calls >= CALLS_TO_SHUTDOWN {
                lines.iter().filter_map(|line| line.socket.as_ref()).for_each(|socket| {
                    // What is shut already needs no more.
                    let _ = shutdown(socket, Shutdown::Both);
                });
            } else if calls.is_multiple_of(CALLS_PER_REQUEST) {
                lines.iter().for_each(|line| server.request(line.cancel.clone()));
            }
            calls = calls.saturating_add(1);
        })
    }

    /// Asks for one cancellation. A server that hangs takes the request and never closes it, so
    /// nobody waits for that.
    fn request(&self, cancel: CancelToken) {
        let tls = self.tls.clone();
        let run = move || match tls {
            Some(tls) => cancel.cancel_query(tls),
            None => cancel.cancel_query(NoTls),
        };
        // Without one the connection is shut a moment later.
        let _ = thread::Builder::new().name("cancel".into()).spawn(run);
    }
}
