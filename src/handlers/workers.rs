//! Threads, each of which makes one attempt at a time.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use anyhow::{Context, Result};

use super::Job;
use crate::lock::lock;

pub struct Workers {
    /// Closed by `join`.
    jobs: Mutex<Option<Sender<Job>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Workers {
    pub fn start(count: usize, attempt: impl Fn(Job) + Send + Sync + 'static) -> Result<Self> {
        let (jobs, queue) = channel();
        let (queue, attempt) = (Arc::new(Mutex::new(queue)), Arc::new(attempt));
        let threads = (0..count).map(|number| {
            let (queue, attempt) = (queue.clone(), attempt.clone());
            std::thread::Builder::new()
                .name(format!("handler {number}"))
                .spawn(move || work(&queue, &*attempt))
                .context("could not start a thread for the handlers; lower --jobs")
        });
        let threads = Mutex::new(threads.collect::<Result<_>>()?);
        Ok(Self { jobs: Mutex::new(Some(jobs)), threads })
    }

    pub fn take(&self, jobs: Vec<Job>) {
        if let Some(queue) = &*lock(&self.jobs) {
            for job in jobs {
                // The workers live as long as this channel.
                let _ = queue.send(job);
            }
        }
    }

    /// Waits for the end of what they are at.
    pub fn join(&self) {
        *lock(&self.jobs) = None;
        for thread in std::mem::take(&mut *lock(&self.threads)) {
            // A worker that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn work(queue: &Mutex<Receiver<Job>>, attempt: &dyn Fn(Job)) {
    loop {
        let job = lock(queue).recv();
        let Ok(job) = job else { return };
        attempt(job);
    }
}
