//! Execution of commands.

use super::station::Station;
use super::{Command, DEVICES_MAX, SPEEDS, Session, SessionError, job};
use std::ops::Range;

/// Largest number of requests in one step, so that a step takes a few seconds at most.
const STEP_MAX: u32 = 1_000_000;

impl Session {
    /// Executes a command of the page.
    ///
    /// # Errors
    /// Returns an error if the command does not apply.
    pub fn execute(&mut self, command: &Command) -> Result<(), SessionError> {
        match command {
            Command::Pause {} => self.paused = true,
            Command::Resume {} => self.paused = false,
            Command::Step { requests: 0 } => return Err(SessionError::NoRequests),
            Command::Step { requests } => self.step(*requests),
            Command::Speed { factor } if SPEEDS.contains(factor) => self.speed = *factor,
            Command::Speed { factor } => return Err(SessionError::Speed { factor: *factor }),
            Command::Cut(target) => self.switch(target.device, Station::check_powered, |station| {
                station.unplug();
                station.plug();
            })?,
            Command::Unplug(target) => {
                self.switch(target.device, Station::check_powered, Station::unplug)?;
            }
            Command::Plug(target) => {
                self.switch(target.device, Station::check_unpowered, Station::plug)?;
            }
            Command::Fault { requests: 0, .. } => return Err(SessionError::NoRequests),
            Command::Fault { device, requests } => {
                self.each(*device, Station::check_fail, |station| station.fail(*requests))?;
            }
            Command::Discard { device, offset, bytes } => self.each(
                *device,
                |station| station.check_discard(*offset, *bytes),
                |station| station.discard(*offset, *bytes),
            )?,
            Command::Set { device, key, value } => self.set(*device, key, value)?,
            Command::Job { text } => self.replace_job(text)?,
            Command::Beside { device } => self.show_beside(device)?,
            Command::Alone {} if self.stations.len() < 2 => return Err(SessionError::OneDevice),
            Command::Alone {} => self.stations.truncate(1),
            Command::Restart {} => {
                let arguments = self.arguments();
                self.open_all(&arguments)?;
            }
        }
        (0..self.stations.len()).for_each(|index| self.report(index));
        Ok(())
    }

    /// Pauses, and advances until the first device has completed `requests` more requests.
    fn step(&mut self, requests: u32) {
        self.paused = true;
        let Some(first) = self.stations.first_mut() else { return };
        if first.complete(requests.min(STEP_MAX)) {
            self.target = self.target.max(first.now());
        }
        while self.work() {}
    }

    fn arguments(&self) -> Vec<String> {
        self.stations.iter().map(|station| station.argument().to_owned()).collect()
    }

    /// Returns the indices of the devices that a command addresses.
    fn addressed(&self, device: Option<usize>) -> Result<Range<usize>, SessionError> {
        match device {
            None => Ok(0..self.stations.len()),
            Some(index) if index < self.stations.len() => Ok(index..index + 1),
            Some(device) => Err(SessionError::NoDevice { device }),
        }
    }

    /// Executes a command on all devices that it addresses, or on none if `check` refuses one of them.
    fn each(
        &mut self,
        device: Option<usize>,
        check: impl Fn(&Station) -> Result<(), SessionError>,
        execute: impl Fn(&mut Station),
    ) -> Result<(), SessionError> {
        let addressed = self.addressed(device)?;
        self.stations[addressed.clone()].iter().try_for_each(check)?;
        self.stations[addressed].iter_mut().for_each(execute);
        Ok(())
    }

    /// Switches the power of those addressed devices that `check` accepts. Returns an error if `check`
    /// accepts none.
    fn switch(
        &mut self,
        device: Option<usize>,
        check: impl Fn(&Station) -> Result<(), SessionError>,
        execute: impl Fn(&mut Station),
    ) -> Result<(), SessionError> {
        let addressed = self.addressed(device)?;
        let addressed = &mut self.stations[addressed];
        let checked: Vec<Result<(), SessionError>> = addressed.iter().map(&check).collect();
        let applies: Vec<bool> = checked.iter().map(Result::is_ok).collect();
        if !applies.contains(&true) {
            return checked.into_iter().collect();
        }
        let devices = addressed.iter_mut().zip(applies).filter(|(_, applies)| *applies);
        devices.for_each(|(station, _)| execute(station));
        Ok(())
    }

    /// Opens new devices in place of the present ones.
    fn open_all(&mut self, arguments: &[String]) -> Result<(), SessionError> {
        let open =
            |argument: &String| Station::open(argument, &self.job, &self.library, self.seed, self.target);
        self.stations = arguments.iter().map(open).collect::<Result<_, _>>()?;
        // A new interval begins, because the new devices served no requests in the current one.
        self.begun = self.target;
        self.stations.iter_mut().for_each(|station| station.say("the device starts as new"));
        Ok(())
    }

    fn set(&mut self, device: Option<usize>, key: &str, value: &str) -> Result<(), SessionError> {
        let setting = format!("{key}={value}");
        let names_a_file = value.contains('/') || value.ends_with(".toml") || key == "state";
        let is_plain = |text: &str| !text.is_empty() && !text.contains([',', '=', ':']);
        if names_a_file || !is_plain(key) || !is_plain(value) {
            return Err(SessionError::Setting { setting });
        }
        let mut changed = Vec::new();
        for index in self.addressed(device)? {
            let argument = self.stations[index].argument_with(key, value);
            let new = Station::open(&argument, &self.job, &self.library, self.seed, self.target)?;
            changed.push((index, new));
        }
        for (index, mut new) in changed {
            let kept = new.continue_from(&mut self.stations[index], key);
            new.continue_history(&mut self.stations[index]);
            let effect = if kept { "the device keeps its state" } else { "the device starts as new" };
            new.say(&format!("{setting}: {effect}"));
            self.stations[index] = new;
        }
        Ok(())
    }

    fn replace_job(&mut self, text: &str) -> Result<(), SessionError> {
        let jobs = job::parse(text)?;
        for station in &mut self.stations {
            station.check(&jobs)?;
        }
        self.stations.iter_mut().for_each(|station| station.replace_jobs(jobs.clone()));
        text.clone_into(&mut self.job);
        Ok(())
    }

    fn show_beside(&mut self, device: &str) -> Result<(), SessionError> {
        if device.contains(".toml") || device.contains("state=") {
            return Err(SessionError::Files { device: device.to_owned() });
        }
        let mut arguments = self.arguments();
        arguments.truncate(DEVICES_MAX - 1);
        arguments.push(device.to_owned());
        self.open_all(&arguments)
    }
}
