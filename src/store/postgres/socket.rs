//! The socket of a session, among all that this process has open: the connection keeps it to itself.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};

use postgres::Client;
use rustix::net::{SocketAddrAny, SocketAddrUnix, getpeername, getsockname};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The peer of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// The name of the file. In which directory it is may look different from there.
    Socket(String),
    Tcp(SocketAddr),
}

/// The sockets that this process has open, by descriptor.
pub struct Sockets(HashMap<RawFd, PathBuf>);

impl Sockets {
    pub fn open() -> Self {
        let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        let sockets = entries.filter_map(|entry| {
            let target = fs::read_link(entry.path()).ok()?;
            let number = entry.file_name().to_str()?.parse().ok()?;
            target.to_str()?.starts_with("socket:").then_some((number, target))
        });
        Self(sockets.collect())
    }

    /// The one that the client has opened since, as a descriptor of its own. Others that lead to
    /// the same peer are told from it by what the server sees of it. None where that is another
    /// one's, as behind a pooler, or where the system does not give descriptors out.
    pub fn new_one_of(&self, client: &mut Client, peer: &Peer) -> Option<OwnedFd> {
        let mut found = self.new_ones_to(peer);
        if found.len() > 1 {
            let seen = seen(client)?;
            found.retain(|socket| local(socket) == Some(seen));
        }
        let socket = found.pop()?;
        found.is_empty().then_some(socket)
    }

    fn new_ones_to(&self, peer: &Peer) -> Vec<OwnedFd> {
        let Ok(own) = pidfd_open(getpid(), PidfdFlags::empty()) else { return Vec::new() };
        let now = Self::open().0.into_iter();
        let new = now.filter(|(number, socket)| self.0.get(number) != Some(socket));
        let duplicate = |number| pidfd_getfd(&own, number, PidfdGetfdFlags::empty()).ok();
        new.filter_map(|(number, _)| duplicate(number))
            .filter(|socket| leads_to(socket).as_ref() == Some(peer))
            .collect()
    }
}

fn leads_to(socket: &impl AsFd) -> Option<Peer> {
    let address = getpeername(socket).ok()??;
    if let Some(address) = tcp(address.clone()) {
        return Some(Peer::Tcp(address));
    }
    let address = SocketAddrUnix::try_from(address).ok()?;
    let path = address.path()?;
    let name = Path::new(path.to_str().ok()?).file_name()?;
    Some(Peer::Socket(name.to_str()?.into()))
}

fn local(socket: &impl AsFd) -> Option<SocketAddr> {
    getsockname(socket).ok().and_then(tcp)
}

fn tcp(address: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(address).ok().map(plain)
}

/// An address without what is only of interest on this side of the connection.
fn plain(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Peer {
    pub fn tcp(address: IpAddr, port: u16) -> Self {
        Self::Tcp(plain(SocketAddr::new(address, port)))
    }

    pub fn socket(port: u16) -> Self {
        Self::Socket(format!(".s.PGSQL.{port}"))
    }
}

/// This end of the connection, as the server sees it.
fn seen(client: &mut Client) -> Option<SocketAddr> {
    let sql = "SELECT host(inet_client_addr()), inet_client_port()";
    let rows = client.query_typed(sql, &[]).ok()?;
    let row = rows.first()?;
    let (address, port): (Option<&str>, Option<i32>) = (row.get(0), row.get(1));
    let port = u16::try_from(port?).ok()?;
    Some(plain(SocketAddr::new(address?.parse().ok()?, port)))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::thread;

    use super::*;
    use crate::store::Server;
    use test_support::cluster::Cluster;
    use test_support::server::splice;

    /// A port that nobody else has, so that no other test connects there.
    fn free_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    fn connected(url: &str) -> (Client, Peer) {
        Server::new(url, &|_| None).unwrap().connect().unwrap()
    }

    #[test]
    fn a_session_is_told_from_other_sockets_to_the_same_server() {
        let port = free_port();
        let settings = ["listen_addresses=127.0.0.1", &format!("port={port}")];
        let Some(_cluster) = Cluster::private(&settings) else { return };
        let place = format!("127.0.0.1:{port}");
        let before = Sockets::open();
        let decoy = || TcpStream::connect(&place).unwrap();
        let (_first, _pair) = (decoy(), UnixStream::pair().unwrap());
        let (mut client, peer) = connected(&format!("postgres://postgres@{place}/postgres"));
        let _second = decoy();
        let found = before.new_one_of(&mut client, &peer).unwrap();
        assert_eq!(local(&found), seen(&mut client));
    }

    #[test]
    fn a_socket_that_the_server_does_not_see_is_found_only_if_there_is_one() {
        let port = free_port();
        let settings = ["listen_addresses=127.0.0.1", &format!("port={port}")];
        let Some(cluster) = Cluster::private(&settings) else { return };
        let relay = TcpListener::bind("127.0.0.1:0").unwrap();
        let relayed = relay.local_addr().unwrap();
        thread::spawn(move || {
            for near in relay.incoming().flatten() {
                let far = TcpStream::connect(("127.0.0.1", port)).unwrap();
                thread::spawn(move || splice(near, far));
            }
        });
        let directory = cluster.sockets();
        let host = directory.to_str().unwrap().replace('/', "%2F");
        let path = directory.join(format!(".s.PGSQL.{port}"));
        let by_relay = || OwnedFd::from(TcpStream::connect(relayed).unwrap());
        let by_socket = || OwnedFd::from(UnixStream::connect(&path).unwrap());
        let relay_url = format!("postgres://postgres@{relayed}/postgres");
        let socket_url = format!("postgres://postgres@/postgres?host={host}&port={port}");
        let ways: [(_, &dyn Fn() -> OwnedFd); 2] =
            [(relay_url, &by_relay), (socket_url, &by_socket)];
        for (url, another) in ways {
            let before = Sockets::open();
            let (mut client, peer) = connected(&url);
            let found = before.new_one_of(&mut client, &peer).unwrap();
            assert_eq!(leads_to(&found), Some(peer.clone()));
            // It is one more that leads there.
            drop(found);
            let _decoy = another();
            assert!(before.new_one_of(&mut client, &peer).is_none(), "{url}");
        }
    }
}
