//! Mutexes that are taken whatever has become of another thread that held them.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A thread that panicked has said so already, and what it left is used as it is.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
