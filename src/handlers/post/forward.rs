//! A proxy that is handed plain requests: they name the whole URL in their first line.

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

/// The only method there is, and the space after it.
const METHOD: &[u8] = b"POST ";

/// The library knows but CONNECT, which proxies refuse for ports that are not for TLS.
#[derive(Debug)]
pub struct Forward;

impl<In: Transport> Connector<In> for Forward {
    type Out = Forwarded<In>;

    fn connect(
        &self,
        _details: &ConnectionDetails,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        Ok(chained.map(|inner| Forwarded { inner, is_between: true }))
    }
}

/// A connection to the proxy.
#[derive(Debug)]
pub struct Forwarded<T> {
    inner: T,
    /// Whether what is sent next begins a request.
    is_between: bool,
}

impl<T: Transport> Forwarded<T> {
    /// Puts the scheme and the host, which is read from the headers, before the path.
    fn complete(&mut self, amount: usize) -> Result<usize, Error> {
        let output = self.inner.buffers().output();
        let head = output.get(..amount).unwrap_or_default();
        let completed = completed(head).ok_or(Error::Tls("the request has no host"))?;
        let Some(room) = output.get_mut(..completed.len()) else {
            return Err(Error::LargeResponseHeader(completed.len(), output.len()));
        };
        room.copy_from_slice(&completed);
        Ok(completed.len())
    }
}

/// The head of a request with its URL in full.
fn completed(head: &[u8]) -> Option<Vec<u8>> {
    let path = head.strip_prefix(METHOD)?;
    let host = head.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"host: "))?;
    Some([METHOD, b"http://", host.trim_ascii(), path].concat())
}

impl<T: Transport> Transport for Forwarded<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let amount = if self.is_between { self.complete(amount)? } else { amount };
        self.is_between = false;
        self.inner.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.is_between = true;
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }
}
