//! The files of AIM7 and re-aim, for programs that read them.

use core::fmt::Write as _;

use crate::points::{RunPoint, RunReport};

/// Version of AIM7 whose file is written.
const SUITE7_VERSION: &str = "1.1";

impl RunReport {
    /// `suite7.ss` of AIM7: a heading and a row for each load point, with tabs. AIM7 appends it to
    /// the file. Points that failed are left out.
    pub fn to_suite7(&self, machine: &str, date: &str) -> String {
        let mut text = format!(
            "Benchmark\tVersion\tMachine\tRun Date\n\
             AIM Multiuser Benchmark - Suite VII\t\"{SUITE7_VERSION}\"\t{machine}\t{date}\n\n\
             Tasks\tJobs/Min\tJTI\tReal\tCPU\tJobs/sec/task\n"
        );
        for point in self.whole() {
            let _ = writeln!(
                text,
                "{}\t{:.1}\t{:.0}\t{:.2}\t{:.2}\t{:.4}",
                point.users,
                point.jobs_per_min,
                point.jti,
                point.real_s,
                point.cpu_s,
                point.jobs_per_sec_per_task
            );
        }
        text
    }

    /// `reaim.csv` of re-aim. The standard deviation and the times of the users are in seconds.
    /// Points that failed, and those of a virtual machine, are left out.
    pub fn to_reaim_csv(&self) -> String {
        let mut text = "Forks,JPM,JPM_C,JPS_C,parent_tm,childU_tm,childS_tm,std_dev,JTI,max_c,\
                        min_c\n"
            .to_owned();
        text.extend(self.whole().filter_map(reaim_row));
        text
    }

    /// What AIM7 prints while it runs: a heading, a row for each load point, the date at its end.
    pub fn to_aim7_output(&self, date: &str) -> String {
        let mut text = String::from("Tasks    jobs/min  jti  jobs/min/task      real       cpu\n");
        for point in self.whole() {
            let each = point.jobs_per_min / point.users.max(1) as f64;
            let _ = writeln!(
                text,
                "{:5}{:12.2}{:5.0}{:15.4}{:10.2}{:10.2}   {date}",
                point.users, point.jobs_per_min, point.jti, each, point.real_s, point.cpu_s
            );
        }
        text
    }

    /// What re-aim prints: headings, a row of nine columns for each load point, the best of them.
    /// A virtual machine does not know all of them; its points are left out.
    pub fn to_reaim_output(&self) -> String {
        let mut text = String::from(
            "REAIM Workload\n\
             Times are in seconds - Child times from tms.cstime and tms.cutime\n\n\
             Num     Parent   Child   Child  Jobs per   Jobs/min/  Std_dev  Std_dev  JTI\n\
             Forked  Time     SysTime UTime   Minute     Child      Time     Percent \n",
        );
        text.extend(self.whole().filter_map(reaim_line));
        let best = self.whole().map(|point| point.jobs_per_min).fold(0.0, f64::max);
        let _ = writeln!(text, "Max Jobs per Minute {best:.2}");
        text
    }

    fn whole(&self) -> impl Iterator<Item = &RunPoint> {
        self.points.iter().filter(|point| point.failed.is_none())
    }
}

fn reaim_line(point: &RunPoint) -> Option<String> {
    Some(format!(
        "{:<7} {:<8.2} {:<7.2} {:<6.2} {:<10.2} {:<10.2} {:<8.2} {:<8.2} {:<3.0}\n",
        point.users,
        point.real_s,
        point.system_s?,
        point.user_s?,
        point.jobs_per_min,
        point.jobs_per_min_per_task?,
        point.std_dev_s?,
        point.std_dev_percent?,
        point.jti,
    ))
}

fn reaim_row(point: &RunPoint) -> Option<String> {
    Some(format!(
        "{},{:.2},{:.2},{:.4},{:.4},{:.4},{:.4},{:.4},{:.0},{:.4},{:.4}\n",
        point.users,
        point.jobs_per_min,
        point.jobs_per_min_per_task?,
        point.jobs_per_sec_per_task,
        point.real_s,
        point.user_s?,
        point.system_s?,
        point.std_dev_s?,
        point.jti,
        point.longest_user_s?,
        point.shortest_user_s?
    ))
}

#[cfg(test)]
mod tests {
    use convoy_workload::record::Cause;

    use super::*;

    fn example() -> RunReport {
        let point = RunPoint {
            users: 10,
            jobs_per_min: 3000.0,
            jti: 98.0,
            real_s: 19.4,
            cpu_s: 38.5,
            jobs_per_sec_per_task: 5.0,
            jobs_per_min_per_task: Some(300.0),
            user_s: Some(30.0),
            system_s: Some(8.5),
            std_dev_s: Some(0.25),
            longest_user_s: Some(19.4),
            shortest_user_s: Some(19.0),
            ..RunPoint::default()
        };
        let failed = RunPoint { failed: Some(Cause::default()), ..point.clone() };
        RunReport {
            title: String::new(),
            inputs: None,
            points: vec![point, failed],
            notes: Vec::new(),
        }
    }

    #[test]
    fn suite7_has_tabs_and_the_heading_of_1996() {
        let text = example().to_suite7("host", "Nov 20 22:00:00 2026");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Benchmark\tVersion\tMachine\tRun Date");
        assert!(lines[1].ends_with("\t\"1.1\"\thost\tNov 20 22:00:00 2026"), "{text}");
        assert_eq!(lines[3], "Tasks\tJobs/Min\tJTI\tReal\tCPU\tJobs/sec/task");
        assert_eq!(lines[4..], ["10\t3000.0\t98\t19.40\t38.50\t5.0000"]);
    }

    #[test]
    fn reaim_csv_has_its_columns() {
        let text = example().to_reaim_csv();
        let lines: Vec<&str> = text.lines().collect();
        let heading = "Forks,JPM,JPM_C,JPS_C,parent_tm,childU_tm,childS_tm,std_dev,JTI,max_c,min_c";
        assert_eq!(lines[0], heading);
        let row = "10,3000.00,300.00,5.0000,19.4000,30.0000,8.5000,0.2500,98,19.4000,19.0000";
        assert_eq!(lines[1..], [row]);
    }
}
