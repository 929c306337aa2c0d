//! The sides of a comparison, read and measured.

use super::judge::Case;
use super::live::{Measured, Plan, Stage};
use super::operand::{Command, Operand};
use super::request::Request;
use super::series::Side;
use super::settings::differing;
use crate::MeasureError;
use convoy_os::Interrupts;

/// Runs of commands that are compared with stored numbers, so that there is nothing to watch.
const UNWATCHED: u32 = 20;

/// Blocks before the first evaluation: with fewer, even ranks cannot distinguish two sides.
const FIRST_LOOK: usize = 6;

impl Request {
    /// Whether the sides that are there already are of one thing.
    fn check_settings(&self, operands: &[(String, Operand)]) -> Result<(), MeasureError> {
        let stored = operands.iter().filter_map(|(label, operand)| match operand {
            Operand::Numbers(side) => Some(Side { label: label.clone(), ..side.clone() }),
            Operand::Command(_) => None,
        });
        let mut all = differing(&stored.collect::<Vec<_>>());
        all.retain(|difference| !self.across.contains(&difference.name));
        if all.is_empty() { Ok(()) } else { Err(MeasureError::Different(all)) }
    }

    /// Returns the sides with their numbers: read from files and records, measured for commands.
    /// `progress` receives the finished blocks, their maximum, and the step.
    pub fn sides(
        &self,
        operands: &[(String, Operand)],
        interrupts: &Interrupts,
        progress: &mut dyn FnMut(usize, u32, Stage),
    ) -> Result<(Vec<Side>, Measured), MeasureError> {
        self.check()?;
        self.check_settings(operands)?;
        let commands = operands.iter().filter_map(|(label, operand)| match operand {
            Operand::Command(command) => Some((label.clone(), command)),
            Operand::Numbers(_) => None,
        });
        let mut commands: Vec<_> = commands.collect();
        let mut measured = Measured::default();
        if !commands.is_empty() {
            if self.aa {
                let (label, Operand::Command(baseline)) = &operands[0] else {
                    let problem = "the baseline is no command that could run again".to_owned();
                    return Err(MeasureError::Setting { name: "aa", problem });
                };
                commands.push((format!("{label} (again)"), baseline));
            }
            measured = self.measure(commands, operands.len(), interrupts, progress)?;
        }
        let mut live = std::mem::take(&mut measured.sides).into_iter();
        let numbers = |(label, operand): &(String, Operand)| match operand {
            Operand::Command(_) => live.next().expect("a side for each command"),
            Operand::Numbers(side) => Side { label: label.clone(), ..side.clone() },
        };
        let mut sides: Vec<Side> = operands.iter().map(numbers).collect();
        sides.extend(live);
        Ok((sides, measured))
    }

    fn measure(
        &self,
        commands: Vec<(String, &Command)>,
        sides: usize,
        interrupts: &Interrupts,
        progress: &mut dyn FnMut(usize, u32, Stage),
    ) -> Result<Measured, MeasureError> {
        let watched = commands.len() == sides + usize::from(self.aa);
        let most = if watched { self.max_runs } else { self.max_runs.min(UNWATCHED) };
        let plan = Plan::new(self, commands, self.runs.unwrap_or(most), watched)?;
        let mut measured = plan.measure(interrupts, progress, &mut |all| {
            watched.then(|| self.enough(&all[..sides])).flatten()
        });
        if measured.blocks == 0 {
            return Err(measured.broken.take().unwrap_or_else(|| nothing(&measured)));
        }
        Ok(measured)
    }

    /// Why there are enough runs, if there are. It may be asked after every block: the test bounds
    /// the error over all looks together.
    fn enough(&self, sides: &[Side]) -> Option<String> {
        let blocks = sides.first()?.series.first()?.values.len();
        if blocks < FIRST_LOOK {
            return None;
        }
        let live = vec![true; sides.len()];
        let case = Case { request: self, live: &live, sequential: true };
        let sure = case.rows(sides, None).ok()?.iter().all(|row| row.is_settled(self.tail));
        sure.then(|| format!("sure after {blocks} runs of each side"))
    }
}

fn nothing(measured: &Measured) -> MeasureError {
    let all = measured.failures.iter().filter(|failure| failure.failed > 0);
    let all: Vec<String> = all
        .map(|f| format!("{} failed in {} of {} runs ({})", f.label, f.failed, f.tried, f.first))
        .collect();
    let text = format!("no block of runs in which nothing failed: {}", all.join("; "));
    MeasureError::Machine(text)
}
