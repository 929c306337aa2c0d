//! A workload on the virtual kernel: its files are created first, in memory, then one process runs
//! it, from t0 until the last of its processes ends.

use std::cell::RefCell;
use std::rc::Rc;

use convoy_kernel::{
    FileSystem, JournalOptions, KernelPreset, Options, Process, World, volume_path,
};
use convoy_machine::{Event, Here, Machine, Mode, Preset, Recorder};
use convoy_workload::api::Kernel;
use convoy_workload::calibration::Calibration;
use convoy_workload::draw::Lcg;
use convoy_workload::workload::{Place, Workload};

use crate::bulk::{self, BulkUse, MeanSd};
use crate::virtual_end::{VirtualError, run_to_end};

/// Its work directory.
const DIRECTORY: &str = "/tmp/work";
/// Additional tasks of the machine: exited tasks that have not been reaped, and the first process.
const TASKS_BESIDE: usize = 64;
/// Size of the file system on the disk, bytes.
const DISK_BYTES: u64 = 4 << 30;

/// A workload on a virtual machine.
#[derive(Clone, Debug)]
pub struct VirtualWork {
    /// The workload.
    pub workload: Workload,
    /// The kernel.
    pub kernel: KernelPreset,
    /// The machine.
    pub machine: Preset,
    /// Memory of the machine, MiB.
    pub memory_mib: u32,
    /// Each seed has a different amount of work, drawn within this percentage of the workload's, so
    /// that results hold for a range of amounts.
    pub spread_percent: u32,
    /// Each seed starts at a different time, up to this many milliseconds after its files were
    /// created, as programs on a real machine start at any time between two ticks and two runs of
    /// the load balancer.
    pub start_spread_ms: u32,
    /// Whether its files are on the machine's disk and not cached in memory when it begins.
    pub cold: bool,
    /// Runs of the workload before the measured one, each in other directories: lists of CPUs and
    /// free blocks are then in the state of a machine that has been up for some time.
    pub runs_before: u32,
    /// Seed of the machine's perturbation.
    pub seed: u64,
}

/// The result.
#[derive(Clone, Debug, Default)]
pub struct WorkPoint {
    /// From t0 to the end, seconds.
    pub real_s: f64,
    /// Busy time of the CPUs during the run, in seconds.
    pub cpu_s: f64,
    /// Part of that time in user mode.
    pub user_s: f64,
    /// Idle time, percent of all CPUs.
    pub idle_percent: f64,
    /// MB per second read from the disk, if the workload measures it.
    pub read_mb_s: Option<f64>,
    /// Pages written to per second, if the workload measures it.
    pub pages_per_s: Option<f64>,
    /// Figures of the workload's loops, by their keys.
    pub loops: Vec<(&'static str, f64)>,
    /// Bulk operations of the page allocator, zone by zone.
    pub bulk: Vec<BulkUse>,
    /// Schedule hash of the whole run.
    pub hash: u64,
}

/// Returns the time that CPUs were not idle, and the part of it in user mode, picoseconds.
fn busy_ps(cpus: usize) -> (u64, u64) {
    fn times(cpu: usize) -> (u64, u64) {
        let times = Here::times(cpu);
        (times.iter().sum::<u64>() - times[Mode::Idle as usize], times[Mode::User as usize])
    }
    (0..cpus).map(times).fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1))
}

impl WorkPoint {
    /// Mean and deviation over the calls of all zones.
    fn over_calls(&self, call: &str, figure: fn(&BulkUse) -> MeanSd) -> MeanSd {
        let rows = self.bulk.iter().filter(|row| row.call == call);
        pooled(rows.map(|row| (row.calls as f64, figure(row))))
    }

    /// Mean and deviation of the order of the free blocks from which all zones took pages.
    fn found_order(&self) -> MeanSd {
        pooled(
            self.bulk
                .iter()
                .filter_map(|row| Some((row.calls as f64 * row.count.mean, row.found_order?))),
        )
    }

    /// Returns its numbers by their names in reports. Counts and orders of bulk operations are over
    /// all zones. The order of a refill is the order of the free blocks that it found; it always
    /// requests order 0.
    pub fn metrics(&self) -> Vec<(&'static str, f64)> {
        let refill_count = self.over_calls("rmqueue_bulk", |row| row.count);
        let refill_order = self.found_order();
        let drain_count = self.over_calls("free_pages_bulk", |row| row.count);
        let drain_order = self.over_calls("free_pages_bulk", |row| row.order);
        let read = self.read_mb_s.map(|rate| ("read_mb_s", rate));
        let pages = self.pages_per_s.map(|rate| ("pages_per_s", rate));
        let own = vec![
            ("real_s", self.real_s),
            ("cpu_s", self.cpu_s),
            ("user_s", self.user_s),
            ("system_s", self.cpu_s - self.user_s),
            ("idle_percent", self.idle_percent),
            ("refill_count", refill_count.mean),
            ("refill_count_sd", refill_count.sd),
            ("refill_order", refill_order.mean),
            ("refill_order_sd", refill_order.sd),
            ("drain_count", drain_count.mean),
            ("drain_count_sd", drain_count.sd),
            ("drain_order", drain_order.mean),
            ("drain_order_sd", drain_order.sd),
        ];
        own.into_iter().chain(read).chain(pages).chain(self.loops.iter().copied()).collect()
    }
}

/// Mean and deviation of several series, each with its length.
fn pooled(series: impl Iterator<Item = (f64, MeanSd)>) -> MeanSd {
    let (mut length, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for (events, MeanSd { mean, sd }) in series {
        length += events;
        sum += events * mean;
        squares += events * (sd * sd + mean * mean);
    }
    let mean = sum / length;
    MeanSd { mean, sd: (squares / length - mean * mean).max(0.0).sqrt() }
}

impl VirtualWork {
    /// Runs the workload.
    ///
    /// # Errors
    /// Returns a [`VirtualError`] if the run cannot be set up or does not end.
    pub fn run(&self) -> Result<WorkPoint, VirtualError> {
        self.execute(None)
    }

    /// Runs the workload and reports all events to `recorder`, without other changes.
    ///
    /// # Errors
    /// Returns a [`VirtualError`] if the run cannot be set up or does not end.
    pub fn record(&self, recorder: Rc<RefCell<dyn Recorder>>) -> Result<WorkPoint, VirtualError> {
        self.execute(Some(recorder))
    }

    fn execute(
        &self,
        recorder: Option<Rc<RefCell<dyn Recorder>>>,
    ) -> Result<WorkPoint, VirtualError> {
        let cpus = self.machine.topology.cpus;
        let processes = self.workload.processes(cpus as u32) as usize;
        let tasks = 2 * processes + TASKS_BESIDE + cpus;
        let machine = Machine::new(&self.machine, self.seed, tasks)
            .map_err(|source| VirtualError::AddressSpace { tasks, source })?;
        if let Some(recorder) = recorder {
            machine.record(recorder);
        }
        let calibration = Calibration::embedded()?;
        let memory = u64::from(self.memory_mib) << 20;
        let volumes = self.workload.file_systems() as usize;
        let on_disk = self.cold || self.workload.on_disk();
        let options = Options {
            memory,
            tmpfs: if on_disk { DISK_BYTES } else { memory },
            file_system: if on_disk {
                FileSystem::Journal(JournalOptions::default())
            } else {
                FileSystem::Tmpfs
            },
            processes: tasks,
            volumes,
            ..Options::default()
        };
        let world = World::new(&self.kernel, &self.machine, &calibration.ns, options)?;
        let point = Rc::new(RefCell::new(WorkPoint::default()));
        let broken: Rc<RefCell<Option<String>>> = Rc::default();
        let (this, inner, shared) = (self.clone(), Rc::clone(&world), Rc::clone(&point));
        let failed = Rc::clone(&broken);
        world.boot(&machine, move |parent| match this.parent(parent, &inner) {
            Ok(found) => *shared.borrow_mut() = found,
            Err(what) => *failed.borrow_mut() = Some(what),
        });
        run_to_end(&machine, processes as u32, self.seed, &self.kernel.name, &broken)?;
        let hash = machine.hash();
        Ok(WorkPoint { hash, ..point.take() })
    }

    /// Returns its places: `/tmp`, and the roots of further file systems.
    fn place(&self) -> Place {
        let volumes = 0..self.workload.file_systems() as usize;
        let root = |index| if index == 0 { DIRECTORY.to_owned() } else { volume_path(index) };
        Place { directory: DIRECTORY.to_owned(), volumes: volumes.map(root).collect() }
    }

    /// Returns the factor of this seed's amount of work.
    fn amount(&self) -> f64 {
        // A half-open range in steps of a thousandth of its width.
        let drawn = Lcg::for_user(self.seed, 1).draw_below(1000) as f64 / 500.0 - 1.0;
        1.0 + f64::from(self.spread_percent) / 100.0 * drawn
    }

    /// Returns the start delay of this seed, nanoseconds.
    fn delay_ns(&self) -> u64 {
        let most_us = (u64::from(self.start_spread_ms) * 1000).max(1);
        Lcg::for_user(self.seed, 2).draw_below(most_us) * 1000
    }

    /// Body of the first process.
    fn parent(&self, k: &mut Process, world: &Rc<World>) -> Result<WorkPoint, String> {
        let cpus = self.machine.topology.cpus;
        let mut workload = self.workload.clone();
        workload.multiply_work(self.amount());
        let name = &workload.name;
        k.mkdir(DIRECTORY).map_err(|error| format!("mkdir: {error}"))?;
        let place = self.place();
        for run in 0..self.runs_before {
            let below = |volume: &String| format!("{volume}/before{run}");
            let volumes: Vec<String> = place.volumes.iter().map(below).collect();
            for directory in &volumes {
                k.mkdir(directory).map_err(|error| format!("mkdir: {error}"))?;
            }
            // The directory is on the first volume.
            let before = Place { directory: volumes[0].clone(), volumes };
            let ran = workload.prepare(k, &before);
            let ran = ran.and_then(|()| workload.run(k, &before, cpus as u32));
            ran.map_err(|error| format!("{name}, an earlier run: {error}"))?;
        }
        let prepared = workload.prepare(k, &place);
        prepared.map_err(|error| format!("{name}, before it begins: {error}"))?;
        if self.cold {
            k.drop_caches();
        }
        if self.start_spread_ms > 0 {
            k.sleep(self.delay_ns());
        }
        let (t0, busy, zones) = (k.now(), busy_ps(cpus), world.page_stats());
        Here::tell(Event::Measure(true));
        let loops = workload.run(k, &place, cpus as u32);
        let loops = loops.map_err(|error| format!("{name}: {error}"))?;
        Here::tell(Event::Measure(false));
        let scale = f64::from(self.workload.scale());
        let real_s = scale * (k.now() - t0) as f64 / 1e9;
        let ((all, user), (all_before, user_before)) = (busy_ps(cpus), busy);
        let cpu_s = scale * (all - all_before) as f64 / 1e12;
        let user_s = scale * (user - user_before) as f64 / 1e12;
        let idle_percent = 100.0 * (1.0 - cpu_s / (real_s * cpus as f64)).max(0.0);
        let bulk = bulk::since(world, &zones);
        let scanned = workload.scanned_bytes();
        let read_mb_s = (scanned > 0).then(|| scanned as f64 / f64::from(1 << 20) / real_s);
        let faulted = workload.faulted_pages(cpus as u32);
        let pages_per_s = (faulted > 0).then(|| faulted as f64 / real_s);
        let hash = 0;
        Ok(WorkPoint {
            real_s,
            cpu_s,
            user_s,
            idle_percent,
            read_mb_s,
            pages_per_s,
            loops,
            bulk,
            hash,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_catalogue::{Sheet, WORKLOADS};

    /// Returns a small version of a workload.
    fn small(name: &str) -> Workload {
        let sheet = Sheet::open(&WORKLOADS, name, None).unwrap();
        let mut workload: Workload = sheet.read(&[]).unwrap().value;
        if let Some(find) = &mut workload.find {
            (find.instances, find.files, find.directories) = (3, [8, 9], [3, 4]);
            find.bytes = [60_000, 70_000];
        }
        if let Some(pmake) = &mut workload.pmake {
            pmake.lines.truncate(3);
            (pmake.sources_of_each, pmake.share) = (1, 1);
            pmake.loops_per_line /= 100;
        }
        if let Some(dpunish) = &mut workload.dpunish {
            (dpunish.files, dpunish.share) = (4, dpunish.renames / 20);
        }
        if let Some(pipeline) = &mut workload.pipeline {
            (pipeline.text_bytes, pipeline.share) = (2_000_000, 2);
            pipeline.loops_per_page /= 100;
        }
        if let Some(bonnie) = &mut workload.bonnie {
            (bonnie.instances, bonnie.files) = (8, 20);
        }
        if let Some(scan) = &mut workload.scan {
            scan.bytes /= 64;
        }
        if let Some(loops) = &mut workload.loops {
            loops.operations.iter_mut().for_each(|each| each.times = each.times.div_ceil(100));
            loops.file_bytes /= 8;
        }
        if let Some(faults) = &mut workload.faults {
            faults.region_kib = 1024;
        }
        if let Some(script) = &mut workload.script {
            (script.rounds, script.loops_per_unit) = (1, script.loops_per_unit / 100);
        }
        workload
    }

    /// Returns the run of a small version of a workload.
    fn work(name: &str, seed: u64) -> VirtualWork {
        VirtualWork {
            workload: small(name),
            kernel: KernelPreset::named("2.6.16").unwrap(),
            machine: Preset::named("smp8-2007").unwrap(),
            memory_mib: 1024,
            spread_percent: 0,
            start_spread_ms: 0,
            cold: false,
            runs_before: 0,
            seed,
        }
    }

    /// Returns whether the workload waits for a disk, or for other processes.
    fn work_waits(name: &str) -> bool {
        ["bonnie", "hdparm"].contains(&name)
    }

    #[test]
    fn a_spread_gives_each_seed_an_amount_of_its_own_and_both_kernels_the_same() {
        fn run(kernel: &str, spread_percent: u32, seed: u64) -> f64 {
            let kernel = KernelPreset::named(kernel).unwrap();
            VirtualWork { kernel, spread_percent, ..work("pmake", seed) }.amount()
        }
        let amounts: Vec<f64> = (1..200).map(|seed| run("2.6.16", 2, seed)).collect();
        let (least, most) = amounts.iter().fold((2.0_f64, 0.0_f64), |(least, most), amount| {
            (least.min(*amount), most.max(*amount))
        });
        assert!((0.98..0.982).contains(&least) && (1.018..1.02).contains(&most), "{least} {most}");
        let bits = |kernel, spread_percent| run(kernel, spread_percent, 7).to_bits();
        assert_eq!(bits("2.6.16+zone-opt", 2), bits("2.6.16", 2));
        assert_eq!(bits("2.6.16", 0), 1.0_f64.to_bits());
    }

    #[test]
    fn every_workload_runs_and_the_same_every_time() {
        for name in WORKLOADS.names() {
            let point = work(name, 1).run().unwrap();
            assert!(point.real_s > 0.0 && point.cpu_s > 0.0, "{name}: {point:?}");
            let waits = work_waits(name);
            assert!(waits || point.cpu_s > point.real_s / 8.0, "{name}: {point:?}");
            // Files of bonnie are empty, and dpunish makes none.
            let few = ["dpunish", "bonnie"].contains(&name);
            let bulk = few || point.bulk.iter().any(|row| row.calls > 10);
            assert!(bulk, "{name}: {:?}", point.bulk);
            assert_eq!(point.hash, work(name, 1).run().unwrap().hash, "{name}");
            assert_ne!(
                point.hash,
                work(name, 2).run().unwrap().hash,
                "{name}: the seed perturbs nothing"
            );
        }
    }
}
