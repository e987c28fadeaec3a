//! The options of a pass.

use std::time::Duration;

use backlog_schedule::{AgeWindow, DAY, Policy, RetryLimits, Schedule};

use super::handler::HandlerSpec;
use super::ping::Ping;
use super::resolved::Resolved;
use super::schedule::no_schedule;
use super::settings::Settings;
use crate::engine::PassLimits;
use crate::exit::{ExitError, usage};
use crate::handlers::Proxies;

pub struct PassSettings<'a> {
    pub options: &'a Settings,
    pub schedule: Schedule,
    pub limits: PassLimits,
    pub wait: bool,
    pub ping: Option<(Ping, Proxies)>,
    pub handler: Option<HandlerSpec>,
    pub timeout: Option<Duration>,
}

impl<'a> PassSettings<'a> {
    /// A dry run needs no handler.
    pub fn new(resolved: &'a Resolved<'_>, is_dry: bool) -> Result<Self, ExitError> {
        let (handler, schedule) = (resolved.handler()?, resolved.schedule()?);
        let policy = Policy::Age(AgeWindow { min_secs: 0, max_secs: 100 * 365 * DAY });
        let all_ages = Schedule { policy, limits: RetryLimits::default(), shard: None };
        let schedule =
            schedule.or_else(|| resolved.typed.works_without_schedule.then_some(all_ages));
        // Errors in options precede missing options.
        resolved.require_all(is_dry)?;
        let settings = &resolved.settings;
        if settings.ping.is_some() && cfg!(not(feature = "webhook")) {
            let why = "--ping: this program was built without webhooks (feature `webhook`)";
            return Err(usage(why));
        }
        let environment = &resolved.sources.environment;
        let proxies = || Proxies::from_env(&|name| environment.text(name));
        let default_secs = if matches!(handler, Some(HandlerSpec::Post(_))) { 30 } else { 3_600 };
        Ok(Self {
            options: settings,
            schedule: schedule.ok_or_else(no_schedule)?,
            limits: PassLimits {
                max_records: settings.max_records,
                max_runtime: settings.max_runtime,
                grace: settings.grace,
                max_consecutive_failures: settings.max_consecutive_failures,
                rate: settings.rate,
                ..PassLimits::default()
            },
            wait: false,
            ping: settings.ping.clone().map(|ping| (ping, proxies())),
            handler,
            timeout: settings.timeout.unwrap_or(Some(Duration::from_secs(default_secs))),
        })
    }
}
